"""What a Slurm site has and what is free: nodes, GPUs, queue, and the limits of this user."""

from __future__ import annotations

import re
from typing import Iterable

from gofer.core.json_text import parse_count
from gofer.node.slurm import calls
from gofer.node.slurm.calls import SlurmError
from gofer.remote.api import FreeAndTotal, SlurmNodeFacts, SlurmSurvey

_NODE_FORMAT = (
    "NodeList:|,StateLong:|,CPUsState:|,Memory:|,AllocMem:|,Gres:|,GresUsed:|,Partition:|,Features:|"
)
_GPUS = re.compile(r"gpu(?::([A-Za-z][^:,()]*))?:(\d+)")
_BUSY = ("allocated", "mixed", "completing")


def nodes(partition: str | None) -> list[SlurmNodeFacts]:
    """Every node once, with what it has and what is in use; only those of `partition` if it is given."""
    argv = ["sinfo", "--Node", "--noheader", f"--Format={_NODE_FORMAT}"]
    text = calls.call([*argv, *([f"--partition={partition}"] if partition else [])])
    found: dict[str, SlurmNodeFacts] = {}
    for line in text.splitlines():
        # The format above ends every column with `|`, because values may contain spaces.
        words = [word.strip() for word in line.split("|")]
        if len(words) < 9:
            continue
        name, state, cpus, memory, used, gres, gres_used, part, features = words[:9]
        # sinfo prints a line for each partition of a node.
        if name in found:
            found[name].partitions.append(part.rstrip("*"))
            continue
        have, busy = _gpus(gres), _gpus(gres_used)
        found[name] = SlurmNodeFacts(
            name,
            state,
            partitions=[part.rstrip("*")],
            cpus=_cpus(cpus)[3],
            cpus_used=_cpus(cpus)[0],
            memory_mib=_number(memory),
            memory_used_mib=_number(used),
            gpus=have,
            gpus_used={kind: busy.get(kind, 0) for kind in have},
            features=[] if features in ("", "(null)") else features.split(","),
        )
    for node in found.values():
        node.partitions.sort()
    return list(found.values())


def survey(partition: str | None, account: str | None) -> SlurmSurvey:
    """Facts for a person who chooses where to run. Facts that the site does not report are left out."""
    every = nodes(partition)
    queue = ["squeue", "--noheader", "--array", *([f"--partition={partition}"] if partition else [])]
    lines = calls.call([*queue, "--format=%T|%u"]).split()
    me = calls.user()
    return {
        "nodes": _counted(_plain_state(node.state) for node in every),
        "gpus": _free_gpus(every),
        "cpus": {
            "free": sum(node.cpus - node.cpus_used for node in every if _is_up(node)),
            "total": sum(node.cpus for node in every),
        },
        "queue": _counted(line.partition("|")[0].lower() for line in lines),
        "mine": _counted(
            state.lower() for state, _, who in (line.partition("|") for line in lines) if who == me
        ),
        "limits": _limits(me, account),
    }


def _free_gpus(every: list[SlurmNodeFacts]) -> dict[str, FreeAndTotal]:
    found: dict[str, FreeAndTotal] = {}
    for node in every:
        for kind, count in node.gpus.items():
            entry = found.setdefault(kind, {"free": 0, "total": 0})
            entry["total"] += count
            entry["free"] += count - node.gpus_used[kind] if _is_up(node) else 0
    return found


def _is_up(node: SlurmNodeFacts) -> bool:
    return _plain_state(node.state) in ("idle", *_BUSY)


def _plain_state(word: str) -> str:
    """The state without Slurm's marks; a star means that the node does not answer, so it counts as down."""
    return word.rstrip("*~#!%$@^-+").lower() if word[-1:] != "*" else "down"


def _counted(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return dict(sorted(found.items()))


def _gpus(gres: str) -> dict[str, int]:
    """`gpu:a100:4(IDX:0-1)` as {"a100": 4}; GPUs without a type count as `gpu`."""
    found: dict[str, int] = {}
    for kind, count in _GPUS.findall(gres):
        found[kind or "gpu"] = found.get(kind or "gpu", 0) + _number(count)
    return found


def _cpus(text: str) -> list[int]:
    """The numbers in `allocated/idle/other/total`."""
    words = text.split("/")
    return [_number(word) for word in (words if len(words) == 4 else ["0"] * 4)]


def _number(text: str) -> int:
    return parse_count(text) or 0


def _limits(me: str, account: str | None) -> list[dict[str, str]]:
    """The limits of this user in accounting; empty on a site without accounting."""
    fields = "Account,QOS,MaxJobs,MaxSubmitJobs,MaxWall,GrpTRES,MaxTRES,Partition"
    named = [f"account={account}"] if account else []
    argv = [
        "sacctmgr",
        "--noheader",
        "--parsable2",
        "show",
        "assoc",
        f"user={me}",
        *named,
        f"format={fields}",
    ]
    try:
        # A short timeout, because these facts are not necessary.
        text = calls.call(argv, timeout_s=20.0)
    except (SlurmError, OSError):
        return []
    rows = [dict(zip(fields.split(","), line.split("|"))) for line in text.splitlines()]
    return [{name.lower(): value for name, value in row.items() if value} for row in rows]
