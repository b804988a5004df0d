"""Compares what gofer shows of runs and keeps in the store with what the commands of the runs did."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from home import Home
from linedrill.line_drill import is_refused, ranks_of
from services.azure import Azure

_READING_S = 900.0
# Objects of a run that may stay in the store after its end.
_LEFT = ("request.json", "over.json")
_FAILED = 7

Run = dict[str, Any]


def shown(home: Home, folder: Path) -> Path:
    """The folder with everything that gofer shows, written by `azuredrill.export`."""
    argv = [sys.executable, "-m", "azuredrill.export", str(folder)]
    env = {**home.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    subprocess.run(argv, cwd=home.folder, env=env, check=True, timeout=_READING_S)
    return folder


def log_errors(runs: Mapping[str, Run], printed_folder: Path, found: Path) -> Iterator[str]:
    """Logs that differ from what the command printed, by attempt and rank."""
    for run_id, run in sorted(runs.items()):
        for attempt in run["attempts"]:
            for rank in range(ranks_of(run)):
                name = f"{run_id}.{attempt['number']}.{rank}.log"
                is_last = rank == ranks_of(run) - 1
                wrong = _compared(_read(printed_folder / name), _read(found / name), attempt, is_last=is_last)
                if wrong:
                    yield f"the log {name} of an attempt that is {attempt['state']} {wrong}"
    names = {path.name for path in found.glob("*.log")}
    for name in sorted(names - {path.name for path in printed_folder.glob("*.log")}):
        if (found / name).read_bytes():
            yield f"the log {name} is shown, and no command printed it"


def _failed(attempt: Mapping[str, Any]) -> bool:
    """Whether the last rank failed with the requested exit code; the other ranks were then stopped."""
    return bool(attempt["exit_code"] == _FAILED)


def _compared(
    printed: bytes | None, seen: bytes | None, attempt: Mapping[str, Any], *, is_last: bool
) -> str | None:
    """The log of a command that ended by itself is complete. The log of a stopped command may miss the last
    line, and the log of a lost node everything that was not uploaded yet."""
    printed, is_there, seen = printed or b"", seen is not None, seen or b""
    if attempt["state"] == "succeeded" or (_failed(attempt) and is_last):
        return None if seen == printed and is_there else f"shows {_summary(seen)} of {_summary(printed)}"
    if not printed.startswith(seen):
        return f"shows {_summary(seen)} that are no beginning of {_summary(printed)}"
    if _failed(attempt) and len(printed) - len(seen) > _last_words(printed):
        return f"shows {_summary(seen)} of {_summary(printed)}"
    return None


def _last_words(printed: bytes) -> int:
    """The length of the last output: a line, or a burst at the beginning."""
    lines = printed.splitlines(keepends=True)
    return len(printed) if b" in the burst of " in lines[-1] else len(lines[-1])


def _summary(data: bytes) -> str:
    lines = data.count(b"\n")
    return f"{lines} lines, {len(data)} bytes" + (f" to {data[-40:]!r}" if data else "")


def output_errors(runs: Mapping[str, Run], printed_folder: Path, found: Path) -> Iterator[str]:
    """Outputs that differ from what the last attempt wrote."""
    for run_id, run in sorted(runs.items()):
        if run["state"] != "succeeded":
            continue
        last = max(attempt["number"] for attempt in run["attempts"])
        sums = [printed_folder / f"{run_id}.{last}.{rank}.sums" for rank in range(ranks_of(run))]
        written = {name: digest for path in sums for digest, name in _sums(path)}
        brought = dict(_hashed(found / f"{run_id}.outputs"))
        for name in sorted(written.keys() | brought.keys()):
            if written.get(name) != brought.get(name):
                how = "missing" if name not in brought else "unexpected" if name not in written else "another"
                yield f"the output {name} of {run_id}, attempt {last}, is {how}"


def _sums(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        digest, _, name = line.partition("  ./")
        yield digest, name


def _hashed(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest()


def store_errors(azure: Azure, container: str, prefix: str, runs: Mapping[str, Run]) -> Iterator[str]:
    """Objects in the store that should not exist, and ends that are recorded twice."""
    held = azure.blob_client().get_container_client(container)
    names = [name[len(prefix) :] for name in held.list_blob_names(name_starts_with=prefix)]
    requests = {str(run["group"] or run_id) for run_id, run in runs.items()}
    yield from _handoff_errors(names, requests)
    yield from _folder_errors(names, requests, runs)
    for run_id, run in sorted(runs.items()):
        if not is_refused(run):
            key = f"runs/{run_id}/ends.jsonl"
            data = held.download_blob(prefix + key).readall() if key in names else b""
            ends = [json.loads(line) for line in data.splitlines()]
            if [one["id"] for one in ends] != [run_id]:
                yield f"{key} has {len(ends)} ends: {data[:200]!r}"


def _handoff_errors(names: Iterable[str], requests: set[str]) -> Iterator[str]:
    for name in names:
        found = re.fullmatch(r"(?:rooms|told)/([^/]+)/(.+)", name)
        if found and found[1] not in requests:
            yield f"{name} belongs to no run"
        elif found and found[2] not in _LEFT:
            yield f"{name} was not removed"


def _folder_errors(names: Iterable[str], requests: set[str], runs: Mapping[str, Run]) -> Iterator[str]:
    for name in names:
        found = re.match(r"runs/([^/]+)/", name)
        if found and found[1] not in requests and found[1] not in runs:
            yield f"{name} belongs to no run"
        if name.split("/")[0] not in ("runs", "rooms", "told", "agents", "snapshots", "packs"):
            yield f"{name} is nothing that gofer keeps"
        last = found and f"/attempts/{_last(runs.get(found[1]))}/"
        if last and ".parts/" in name and last in name:
            yield f"{name} is a part of a complete file"


def _last(run: Run | None) -> int:
    return max((attempt["number"] for attempt in run["attempts"]), default=0) if run else 0


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
