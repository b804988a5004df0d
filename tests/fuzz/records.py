"""What a store holds of a run: the records of a real one, as values that can be made wrong."""

from __future__ import annotations

import hashlib
import json
import zlib
from random import Random
from typing import Any

from fuzz.mutation import damaged, encoded, mutated
from fuzz.words import word

RUN = "r260101-000000-aaaaaa"
GROUP = "r260101-000000-bbbbbb"
_AT = 1_767_225_600.5
_ATTEMPT = {
    "number": 1, "state": "failed", "reason": "exit-code", "detail": "rank 1 exited with 3", "exit_code": 3,
    "started_at": _AT, "ended_at": _AT + 1, "elapsed_s": 1.0, "gpus": [[0, 1]],
}  # fmt: skip
_JOB = {
    "command": ["sh", "-c", "exit {x}"], "name": "full", "retries": 1, "tags": {"a": "1"}, "workdir": ".",
    "resources": {"gpus": 0, "nodes": None, "procs": 2, "cpus": None}, "env": {"A": "1"},
    "time_limit_s": 3600.0, "grace_s": 10.0, "setup": "true", "keep": "2GiB", "outputs": ["*"],
    "folders": {"data": {"store": "file:///nonexistent", "path": "p", "mode": "copy", "read_only": True}},
}  # fmt: skip
KEPT = {"files": 2, "bytes": 4, "changed": 0, "left": [["big", "too large"]], "left_count": 1, "copy": "/x"}


def run_record(run: str, snapshot: str | None, *, rows: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": run, "name": "full", "target": "local", "backend": "local", "job": _JOB,
        "layout": {"nodes": 1, "gpus_per_node": 0, "procs_per_node": 2, "cpus_per_proc": 1},
        "submitted_at": _AT - 1, "submitted_by": "me@box", "gofer": "0.1.0", "recorder": "8518cda9b5bc8252",
        "placement": "", "snapshot": snapshot, "resubmit_of": None, "version": 1,
        "code": {"folder": "/p", "file_times": True, "commit": "c" * 40, "branch": "main", "dirty": True,
                 "environments": [".venv"], "imports": ["src"], "versions": {"V": "1"}, "git": False},
        "restore_from": {"run": "r250101-000000-aaaaaa", "rows": None},
    }  # fmt: skip
    if rows:
        record["array"] = {"columns": ["x", "y"], "rows": [["1", "a"], ["2", "b"]]}
    return record


def _end(run: str, row: int | None) -> dict[str, Any]:
    return {"id": run, "row": row, **{k: v for k, v in _ATTEMPT.items() if k not in ("number", "gpus")},
            "attempts": [_ATTEMPT, {**_ATTEMPT, "number": 2}]}  # fmt: skip


_EXIT = {
    "node": 0, "state": "failed", "reason": "exit-code", "detail": "rank 1 exited with 3", "exit_code": 3,
    "signal": None, "started_at": _AT, "ended_at": _AT + 1, "elapsed_s": 1.0, "kept": KEPT,
    "first_failure": {"rank": 1, "exit_code": 3, "signal": None, "at": _AT, "tail": ["hi", "out of memory"]},
    "ranks": [{"rank": 0, "exit_code": 0, "signal": None, "pid": 7, "started_at": _AT, "ended_at": _AT + 1}],
}  # fmt: skip
_EVENTS: list[dict[str, Any]] = [
    {"at": _AT, "event": "agent", "pid": 7, "start": 1376808},
    {"at": _AT, "event": "restored", "files": 2},
    {"at": _AT, "event": "started", "pids": {"0": 8, "1": 9}},
    {"at": _AT, "event": "setup-failed", "exit_code": 1},
    {"at": _AT, "event": "rank-ended", "rank": 0, "exit_code": 0, "signal": None},
    {"at": _AT, "event": "kept", **KEPT},
    {"at": _AT, "event": "ended", "state": "failed"},
]
_HEARTBEAT = {
    "at": _AT, "rss_mib": 100.5, "rss_peak_mib": 200,
    "gpus": [{"index": 0, "name": "A100", "memory_used_mib": 1, "memory_total_mib": 2, "utilisation": 0.5,
              "memory_peak_mib": 2, "utilisation_peak": 1}],
}  # fmt: skip
_FILES: list[list[Any]] = [
    ["files", "out/l", "l", 1, 1767225600776666808, 511, "m"],
    ["files", "out/m", "f", 2, 1767225600776666808, 420, None],
    ["files", "empty", "d", 0, 1767225600776666808, 493, None],
    ["outputs", "y", "x", 2, 1767225600776666808, 493, None, 0],
]
_LOG = b"hi\n\x1b[31mred\x1b[0m\nTraceback:\nModuleNotFoundError: No module named 'x'\n"


def run_objects(run: str, snapshot: str | None = None, *, rows: bool = False) -> dict[str, Any]:
    """The objects of a run by key: a value for a JSON object, a list of values for lines, else bytes."""
    node = f"runs/{run}{'-0' if rows else ''}/attempts/1/node-0"
    return {
        f"runs/{run}/run.json": run_record(run, snapshot, rows=rows),
        f"runs/{run}/ends.jsonl": [_end(f"{run}-{n}", n) for n in (0, 1)] if rows else [_end(run, None)],
        f"runs/{run}/tags.json": {"b": "2", "a": None},
        f"runs/{run}/row-tags.json": {"0": {"b": "2"}, "1": {"c": ""}},
        f"{node}/exit.json": _EXIT,
        f"{node}/events.jsonl": _EVENTS,
        f"{node}/heartbeat.json": _HEARTBEAT,
        f"{node}/files.jsonl": _FILES,
        f"{node}/log-times.jsonl": [{"at": _AT, "sizes": {"0": 5, "1": 20}}],
        f"{node}/rank-0.log": _LOG,
        f"{node}/rank-1.log": _LOG,
        f"runs/{run}/files/out/m": b"w\n",
        f"runs/{run}/outputs/y": b"z\n",
    }


def as_bytes(key: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if key.endswith(".jsonl"):
        return b"".join(json.dumps(one).encode() + b"\n" for one in value)
    return json.dumps(value).encode()


def wrong(rng: Random, key: str, value: Any) -> bytes:
    """An object of a run, with something wrong in it."""
    if isinstance(value, bytes):
        return damaged(rng, value)
    if not key.endswith(".jsonl"):
        return encoded(rng, mutated(rng, value))
    lines = [json.dumps(one).encode() for one in value]
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(lines))
        lines[place] = encoded(rng, mutated(rng, value[place]))
    return b"\n".join(lines) + rng.choice([b"\n", b"", b"\r\n", b"\n\n", b"\x00"])


# -- snapshots


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def snapshot_objects(rng: Random | None = None) -> tuple[str, dict[str, bytes]]:
    """(id, objects) of a snapshot. With `rng` something is wrong inside, and most hashes fit."""
    contents = [b"print(1)\n", b"x\n"]
    listings: list[Any] = [
        [["a.py", "f", 9, _hash(contents[0])], ["l", "l", "a.py"], ["run", "x", 9, _hash(contents[0])]],
        [["b", "f", 2, _hash(contents[1])]],
    ]
    paths: list[Any] = ["", "sub"]
    if rng is not None and rng.random() < 0.6:
        place = rng.randrange(2)
        listings[place] = mutated(rng, listings[place])
    if rng is not None and rng.random() < 0.2:
        paths[1] = rng.choice(
            [word(rng), "sub/../..", "/x", "\0Li4=", "\0!!", "sub/x", "é" * 200, "a.py", None]
        )
    blobs = [*contents, *(_encode(rng, one) for one in listings)]
    index, pack = _pack(rng, blobs)
    folders: list[Any] = [[path, _hash(blob)] for path, blob in zip(paths, blobs[2:], strict=True)]
    manifest: dict[str, Any] = {"format": "gofer-snapshot", "version": 1, "files": 4, "bytes": 20,
                                "folders": folders, "packs": [_hash(index)]}  # fmt: skip
    snapshot = _id(folders)
    data = json.dumps(manifest).encode()
    if rng is not None and rng.random() < 0.3:
        data = encoded(rng, mutated(rng, manifest))
    objects = {
        f"snapshots/{snapshot}": data,
        f"packs/{_hash(index)}.idx": index,
        f"packs/{_hash(index)}": pack,
    }
    if rng is not None and rng.random() < 0.1:
        key = rng.choice(list(objects))
        objects[key] = damaged(rng, objects[key])
    return snapshot, objects


def _encode(rng: Random | None, value: Any) -> bytes:
    return json.dumps(value).encode() if rng is None else encoded(rng, value)


def _pack(rng: Random | None, blobs: list[bytes]) -> tuple[bytes, bytes]:
    rows: list[Any] = []
    at = 0
    for blob in blobs:
        rows.append([_hash(blob), at, len(blob)])
        at += len(blob)
    if rng is not None and rng.random() < 0.2:
        rows = mutated(rng, rows)
    return _encode(rng, rows) if rng is not None and rng.random() < 0.3 else json.dumps(
        rows
    ).encode(), b"".join(blobs)


def _id(folders: list[Any]) -> str:
    digest = hashlib.sha256(b"gofer snapshot 1\0")
    for path, listing in folders:
        digest.update(str(path).encode("utf-8", "surrogatepass") + b"\0" + bytes.fromhex(listing))
    return digest.hexdigest()


def file_times(rng: Random | None, snapshot: str) -> bytes:
    """The object `file-times` of a snapshot of one folder and four files."""
    times = [1_767_225_600_000_000_000] * 5
    modes = [0o755, 0o644, 0o777, 0o755, 0o600]
    if rng is not None:
        times[rng.randrange(5)] = rng.choice([0, -1, -(2**63), 2**63 - 1, 10**18])
        modes[rng.randrange(5)] = rng.choice([0, 0o7777, 0xFFFF, 0o400])
    body = b"".join(one.to_bytes(8, "little", signed=True) for one in times)
    body += b"".join(one.to_bytes(2, "little") for one in modes)
    if rng is not None and rng.random() < 0.2:
        body = rng.choice([damaged(rng, body), body * 100_000])
    data = b"gofer file times 1\n" + snapshot.encode() + zlib.compress(body, 1)
    return damaged(rng, data) if rng is not None and rng.random() < 0.3 else data


# -- packs of data


def packed_folder(rng: Random) -> dict[str, bytes]:
    """The objects of a packed folder `d`, with something wrong in it; its checksum mostly fits."""
    content = b"1\n2\n3\n"
    names = [b"1", b"2", b"sub/3"]
    columns: list[list[int]] = [[0, 0, 0], [0, 2, 4], [2, 2, 2], [10**18] * 3, [0o644] * 3]
    widths = [4, 8, 8, 8, 2]
    if rng.random() < 0.4:
        names[rng.randrange(3)] = rng.choice(
            [word(rng).encode("utf-8", "surrogatepass"), b"..", b"\xff", b"sub", b""]
        )
    if rng.random() < 0.4:
        at = rng.randrange(5)
        columns[at][rng.randrange(3)] = rng.choice([0, 1, 6, 7, 2 ** (8 * widths[at] - 1) - 1])
    raw = b"\0".join(names) + b"".join(
        one.to_bytes(width, "little") for column, width in zip(columns, widths, strict=True) for one in column
    )
    raw += b"".join(hashlib.md5(content[at : at + 2]).digest() for at in (0, 2, 4))
    if rng.random() < 0.1:
        raw = damaged(rng, raw)
    body = zlib.compress(raw, 6)
    if rng.random() < 0.1:
        body = damaged(rng, body)
    pack = _hash(content)
    header: Any = {"files": 3, "names": len(b"\0".join(names)), "packs": [[pack, 6]], "sha256": _hash(body)}
    if rng.random() < 0.3:
        header = mutated(rng, header)
    line = encoded(rng, header) if rng.random() < 0.5 else json.dumps(header).encode()
    data = b"gofer packs 1\n" + line + b"\n" + body
    if rng.random() < 0.1:
        data = damaged(rng, data)
    pack_data = damaged(rng, content) if rng.random() < 0.2 else content
    return {"d/d/.gofer-pack/index/000001": data, f"d/d/.gofer-pack/packs/{pack}": pack_data}
