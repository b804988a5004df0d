"""Areas of what others wrote into a store, of gofer's own files when damaged, and of Slurm's answers."""

from __future__ import annotations

import json
import os
from random import Random

from fuzz.case import Case
from fuzz.mutation import encoded, mutated, scalar, tree
from fuzz.records import (
    GROUP,
    RUN,
    as_bytes,
    file_times,
    packed_folder,
    run_objects,
    run_record,
    snapshot_objects,
    wrong,
)
from fuzz.words import shown_word, word

_ODD_KEYS = [
    *("runs/x/run.json", "runs/r-1/run.json", f"runs/{RUN}/attempts/²/node-0/exit.json"),
    *(f"runs/{RUN}/attempts/1/node-²/exit.json", f"runs/{RUN}/attempts/{'9' * 200}/node-0/exit.json"),
    *(f"runs/{RUN}/attempts/1/node-0/rank-²", f"runs/{RUN}/attempts/1/node-0/rank-99999999999999999999.log"),
    *(
        f"runs/{RUN}/outputs/\u202e",
        f"runs/{RUN}/files/a\nb",
        f"runs/{RUN}-0/run.json",
        "runs/x",
        "snapshots/x",
    ),
    *(f"runs/{RUN}/attempts/1/node--1/exit.json", f"runs/{RUN}/attempts/01/node-00/rank-00.log"),
]
_COMMANDS = [
    ["list", "runs", "--everywhere"],
    ["list", "runs", "--everywhere", "--json", "--rows"],
    ["list", "runs", "--everywhere", "--columns", "id,age,elapsed,attempts,exit_code,tag.b,arg.x,command"],
    ["ledger", "rebuild"],
    ["q", "RUN"],
    ["q", "RUN", "--json"],
    ["logs", "RUN"],
    ["logs", "RUN", "--json"],
    ["logs", "RUN", "--rank", "0", "--tail", "2"],
    ["logs", "RUN", "--rank", "all", "--since", "2026-01-01", "--grep", "e"],
    ["why", "RUN"],
    ["why", "RUN", "--json"],
    ["wait", "RUN", "--timeout", "0s"],
    ["extract", "RUN", "out"],
    ["tag", "RUN"],
    ["tag", "RUN", "x=1"],
    ["ls", "-r", "RUN:"],
    ["cat", "RUN:out/m"],
    ["cat", "RUN:y"],
    ["du", "RUN:"],
    ["cp", "RUN:out", "here"],
    ["sync", "RUN:", "here"],
    ["cp", "RUN:out/m", "here"],
    ["view", "log", "RUN"],
    ["prune", "--older-than", "1d", "--code", "--yes"],
    ["prune", "--older-than", "1d", "--runs", "--yes"],
]


def _words(rng: Random, run: str) -> tuple[str, ...]:
    return tuple(one.replace("RUN", run) for one in rng.choice(_COMMANDS))


def store_contents(rng: Random) -> Case:
    """A store that somebody else wrote: a run of which one or two records are wrong, and odd names."""
    rows = rng.random() < 0.4
    run = GROUP if rows else RUN
    objects = run_objects(run, rows=rows)
    store = {key: as_bytes(key, value) for key, value in objects.items()}
    for key in rng.sample(list(objects), rng.choice([1, 1, 1, 2])):
        store[key] = wrong(rng, key, objects[key])
    if rng.random() < 0.15:
        store.pop(rng.choice(list(store)))
    if rng.random() < 0.2:
        key = rng.choice(
            [rng.choice(_ODD_KEYS), f"runs/{run}/files/{_name(rng)}", f"runs/{_name(rng)}/run.json"]
        )
        store[key] = wrong(rng, "x.json", run_record(run, None, rows=rows))
    asked = run if rng.random() < 0.8 or not rows else f"{run}-{rng.choice(['0', '1', '2', '²', '99', '-1'])}"
    # The ledger has the run as it was, unless the records are read again.
    before = ("ledger", "rebuild") if rng.random() < 0.3 else ()
    return Case(_words(rng, asked), {}, store, before=before)


def _name(rng: Random) -> str:
    name = shown_word(rng).encode("utf-8", "replace").decode()
    return name if name not in (".", "..") else "x"


def snapshots(rng: Random) -> Case:
    """The code of a run: manifest, listings, packs, times of files."""
    snapshot, objects = snapshot_objects(rng if rng.random() < 0.8 else None)
    store = {key: as_bytes(key, value) for key, value in run_objects(RUN, snapshot).items()}
    store |= objects
    store[f"runs/{RUN}/file-times"] = file_times(rng if rng.random() < 0.4 else None, snapshot)
    ledger = (("UPDATE runs SET snapshot = ? WHERE id = ?", (snapshot, RUN)),)
    argv = rng.choice(
        [
            ["extract", RUN, "out"],
            ["extract", RUN, "out"],
            ["extract", RUN, "out"],
            ["q", RUN],
            ["why", RUN],
            ["ls", "-r", f"{RUN}:"],
            ["prune", "--older-than", "1d", "--code", "--dry-run"],
            ["prune", "--older-than", "0d", "--code", "--yes"],
            ["cp", f"{RUN}:out/m", "here"],
        ]
    )
    return Case(tuple(argv), store=store, ledger=ledger)


def packs(rng: Random) -> Case:
    """Folders of data that were packed."""
    argv = rng.choice(
        [
            ["ls", "data/d"],
            ["ls", "-r", "data"],
            ["du", "data"],
            ["cat", "data/d/1"],
            ["cat", "data/d/sub/3"],
            ["d", "data/d"],
            ["d", "--dry-run", "data/d"],
            ["sync", "data/d", "here"],
            ["cp", "data/d", "here"],
            ["rm", "--yes", "data/d"],
            ["rm", "--yes", "data/d/1"],
            ["u", "--pack", "data/d"],
            ["url", "data/d/1"],
        ]
    )
    files = {"gofer.yaml": b"folders: {data: {store: default, path: d}}\n", "data/d/4": b"4\n"}
    return Case(tuple(argv), files, packed_folder(rng))


_COLUMNS = [
    *(
        "id",
        "kind",
        "group_id",
        "row_index",
        "name",
        "target",
        "backend",
        "store",
        "state",
        "reason",
        "detail",
    ),
    *("exit_code", "command", "args", "gpus", "nodes", "procs", "priority", "submitted_at", "started_at"),
    *("ended_at", "elapsed_s", "attempts", "snapshot", "tags", "counts", "size", "submitter", "observed_at"),
    *("project", "definition"),
]
_DEFINITION = {
    "target": "local", "kind": "local", "project": "/p", "options": {"map": {"kind": {"plain": "local"}}},
    "store": "default", "store_entries": {"map": {"url": "file:///nonexistent"}}, "withheld": [],
}  # fmt: skip
_LOOKED = [
    *(
        ["list", "runs"],
        ["list", "runs", "--json", "--rows"],
        ["q", "last"],
        ["why", "last"],
        ["logs", "last"],
    ),
    *(["wait", "last", "--timeout", "0s"], ["tag", "last"], ["du", "last:"]),
    *(["extract", "last", "out"], ["ledger", "rebuild"], ["list", "runs", "--sort", "age", "--columns"]),
    *(
        ["list", "runs", "--filter", "age<7d"],
        ["list", "runs", "--filter", "command~x"],
        ["prune"],
        ["tag", "last", "a=2"],
    ),
    *(["list", "runs", "--export", "x.csv"], ["ls", "last:"], ["list", "jobs"]),
]


def ledgers(rng: Random) -> Case:
    """A ledger with values that gofer does not write, or with other bytes."""
    argv = list(rng.choice(_LOOKED))
    if argv[-1] == "--columns":
        argv.append(
            ",".join(rng.sample(["id", "age", "elapsed", "command", "tag.a", "arg.x", "attempts", "gpus"], 4))
        )
    if rng.random() < 0.2:
        return Case(tuple(argv), damage={"ledger.db": rng.randrange(2**30)})
    column = rng.choice(_COLUMNS)
    statements: list[tuple[str, tuple[object, ...]]] = [
        (f"UPDATE OR IGNORE runs SET {column} = ?", (_ledger_value(rng, column),))
    ]
    if rng.random() < 0.3:
        statements.append(
            (
                "UPDATE records SET record = ?",
                (encoded(rng, mutated(rng, run_record(RUN, None, rows=False))),),
            )
        )
    if rng.random() < 0.3:
        text = encoded(rng, mutated(rng, _DEFINITION)).decode("utf-8", "replace")
        statements.append(("INSERT INTO definitions SELECT id, store, ? FROM runs", (text,)))
        statements.append(("UPDATE runs SET definition = id, project = '/gone', ended_at = NULL", ()))
        statements.append(("UPDATE runs SET state = 'running', target = 'x' WHERE id = ?", (RUN,)))
    if rng.random() < 0.2:
        text = encoded(rng, tree(rng, 2)).decode("utf-8", "replace")
        statements.append(("INSERT INTO events SELECT id, 1e9, 'ended', ? FROM runs", (text,)))
    return Case(tuple(argv), ledger=tuple(statements))


def _ledger_value(rng: Random, column: str) -> object:
    if column in ("command", "args", "attempts", "tags", "counts") and rng.random() < 0.7:
        return encoded(rng, tree(rng, 2)).decode("utf-8", "replace")
    value = scalar(rng)
    if isinstance(value, int) and not isinstance(value, bool):
        value = max(-(2**63), min(2**63 - 1, value))
    if isinstance(value, str):
        return (
            value.encode("utf-8", "replace").decode()
            if rng.random() < 0.8
            else value.encode("utf-8", "replace")
        )
    return json.dumps(value) if isinstance(value, list | dict) else value


_PROFILE = {
    "subscriptions": [
        {"id": "x", "name": "y", "tenantId": "t", "state": "Enabled", "user": {"name": "u", "type": "user"}},
        {"id": "z", "isDefault": True, "user": {"name": "v", "type": "servicePrincipal"}},
    ]
}
_TOKEN = {"who": "az in /x\0t", "scope": "s", "token": "dummy", "expires_at": 1.0}
_HOST = os.uname().nodename
_HOME_FILES: dict[str, object] = {
    "secrets.json": {"k": "v", "wandb": "x"},
    "config.yaml": {"target": "local", "job": {"gpus": 0}},
    "images.json": {"a": {"image": "b", "base": "c", "is_pushed": True, "made_at": 1.0}},
    "azure/a/azureProfile.json": _PROFILE,
    f"engine/{_HOST}/azure/{'a' * 24}.json": _TOKEN,
    f"engine/{_HOST}/azure/cloud.json": {"url": "u", "at": 1, "etag": "e", "text": "[]"},
    "cache/left-out/x": {"a": 1},
    "cache/transfers/x.json": {"identity": "a", "upload": "b"},
}


def own_files(rng: Random) -> Case:
    """gofer's own files after a crash, an edit by hand or another version."""
    home = {}
    for name in rng.sample(list(_HOME_FILES), rng.randrange(1, 4)):
        home[name] = encoded(rng, mutated(rng, _HOME_FILES[name]) if rng.random() < 0.9 else tree(rng, 2))
    argv = rng.choice(
        [
            ["secret", "list"],
            ["secret", "rm", "k"],
            ["submit", "--dry-run", "-e", "A=${secret:k}", "true"],
            ["submit", "--dry-run", "true"],
            ["config", "show"],
            ["account", "list"],
            ["account", "show"],
            ["account", "use", "a"],
            ["image", "list"],
            ["image", "show", "a"],
            ["u", "data/d"],
            ["list", "runs"],
            ["q", "last"],
            ["store", "list"],
            ["prune"],
        ]
    )
    text = b"job: {env: {A: '${secret:k}'}}\nfolders: {data: {path: d}}\ndockers: {a: {image: b}}\n"
    files = {"gofer.yaml": text, "data/d/1": b"x"} if rng.random() < 0.5 else {}
    return Case(tuple(argv), files, {}, {}, home)


_QUEUE = f"{RUN}|12|12|N/A|RUNNING|1767225600|1767229200|node1|None"
_SLURM = {
    "squeue": [
        _QUEUE,
        _QUEUE.replace("RUNNING", "PENDING"),
        "N/A|PENDING|1767225600|10|gpu|1767225600|12|Priority",
    ],
    "sacct": [
        f"{RUN}|12|12|FAILED|1:0|1767225600|1767225601|node1",
        f"{RUN}|12_[1-3%2]|13|CANCELLED by 1000|0:0|Unknown|Unknown|None",
    ],
    "sinfo": [
        "node1|idle|1/63/0/64|512000|1000|gpu:a100:4(S:0-1)|gpu:a100:1(IDX:0)|gpu*|fast",
        "node2|mix|0/8/0/8|1000|0|(null)|(null)|short|(null)",
    ],
    "scontrol": [
        "KillWait = 30 sec\nMaxArraySize = 1001\nAccountingStorageType = accounting_storage/slurmdbd\n",
        "NodeName=node1 CPUTot=64 RealMemory=1 Gres=gpu:4 State=IDLE Partitions=gpu AllocTRES=cpu=1",
    ],
    "sacctmgr": ["research|gres/gpu=8|"],
    "sbatch": ["12"],
    "scancel": [""],
}
_AS_SLURM = "UPDATE runs SET backend = 'slurm', target = 'c', state = ?, ended_at = NULL WHERE id = ?"


def slurm_answers(rng: Random) -> Case:
    """What Slurm's programs print, and what a run's folder says of a job of Slurm."""
    files = {
        "gofer.yaml": b"target: c\ntargets: {c: {kind: slurm, gpus_per_node: 4, folder: 'slurm-folder'}}\n"
    }
    for name, answers in _SLURM.items():
        text = rng.choice(answers)
        if rng.random() < 0.5:
            text = "\n".join(_wrong_line(rng, rng.choice(answers)) for _ in range(rng.randrange(1, 3)))
        files[f"bin/{name}.out"] = text.encode("utf-8", "surrogatepass")
        status = rng.choice([0, 0, 0, 0, 1])
        files[f"bin/{name}"] = f'#!/bin/sh\ncat "$0.out"\nexit {status}\n'.encode()
    ends, end = f"runs/{RUN}/ends.jsonl", f"runs/{RUN}/attempts/1/node-0/exit.json"
    store = {end: b"", ends: wrong(rng, ends, run_objects(RUN)[ends]) if rng.random() < 0.3 else b""}
    argv = rng.choice(
        [
            *(
                ["list", "runs"],
                ["q", "last"],
                ["why", "last"],
                ["why", RUN],
                ["list", "nodes"],
                ["list", "nodes", "--json"],
            ),
            *(
                ["target", "show", "c"],
                ["wait", RUN, "--timeout", "0s"],
                ["list", "jobs"],
                ["submit", "--dry-run", "-n", "8", "true"],
            ),
        ]
    )
    ledger = ((_AS_SLURM, (rng.choice(["queued", "running", "pending", "starting"]), RUN)),)
    return Case(tuple(argv), files, store, {"PATH": "{PROJECT}/bin:/usr/bin:/bin"}, {}, ledger)


def _wrong_line(rng: Random, line: str) -> str:
    mark = "|" if "|" in line else "="
    words = line.split(mark)
    place = rng.randrange(len(words))
    words[place : place + rng.randrange(2)] = [
        rng.choice([word(rng), "", "²", "9" * 30, "Unknown", "N/A", "(null)"])
    ]
    return mark.join(words)
