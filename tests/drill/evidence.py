"""What is known of each run after a round: gofer's word, the marks of its command, and its folder."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from drill.home import Home
from drill.processes import Process

_LOG = re.compile(r"rank-(\d+)\.log")
# What `list runs` looks up in the store, or the time of asking: no part of what a rebuild must give again.
_PASSING = ("why", "logs", "first_failure", "observed_at")
FINAL = ("succeeded", "failed", "cancelled", "lost")
RankMarks = dict[int, list[str]]


class Attempt(NamedTuple):
    """One attempt as gofer tells it."""

    number: int
    state: str
    reason: str | None
    exit_code: int | None


class Run(NamedTuple):
    """One run, or one row of an array, as gofer tells it."""

    id: str
    owner: str
    state: str
    reason: str | None
    exit_code: int | None
    elapsed_s: float | None
    command: list[str]
    ranks: int
    attempts: list[Attempt]
    tag: str
    resubmit_of: str | None


class Listing(NamedTuple):
    """All that the ledger holds: the runs, and the ids of what was submitted (runs and groups)."""

    runs: list[Run]
    owners: dict[str, str]
    resubmitted: set[str]
    plain: dict[str, dict[str, Any]]


class Unanswered(Exception):
    """A gofer command that must work did not."""


def ask(home: Home) -> Listing:
    """`gofer list runs` in full, which also repairs what was interrupted; Unanswered if it fails."""
    answer = home.run("list", "runs", "--all", "--rows", "--json")
    if answer.returncode != 0:
        raise Unanswered(f"`gofer list runs` exited with {answer.returncode}: {answer.stderr.strip()[-500:]}")
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    tops = [one for one in found if one["group"] is None]
    return Listing(
        [_run(one) for one in found if one["kind"] == "run"],
        {one["id"]: one["tags"].get("drill", "") for one in tops},
        {one["id"] for one in tops if one["resubmit_of"]},
        {one["id"]: {k: v for k, v in one.items() if k not in _PASSING} for one in found},
    )


def _run(one: dict[str, Any]) -> Run:
    return Run(
        id=one["id"],
        owner=one["group"] or one["id"],
        state=one["state"],
        reason=one["reason"],
        exit_code=one["exit_code"],
        elapsed_s=one["elapsed_s"],
        command=one["command"],
        ranks=one["nodes"] * one["procs"],
        attempts=[
            Attempt(a["number"], a["state"], a.get("reason"), a.get("exit_code")) for a in one["attempts"]
        ],
        tag=one["tags"].get("drill", ""),
        resubmit_of=one["resubmit_of"],
    )


def read_marks(home: Home) -> dict[str, dict[int, RankMarks]]:
    """Run id → attempt → rank → the lines that the command wrote."""
    marks: dict[str, dict[int, RankMarks]] = defaultdict(lambda: defaultdict(dict))
    for path in home.marks.iterdir():
        run_id, attempt, rank = path.name.split(".")
        marks[run_id][int(attempt)][int(rank)] = path.read_text().split()
    return marks


def fenced_ranks(home: Home, run_id: str, attempt: int) -> set[int]:
    """The ranks whose log exists: their command was started, or was about to be."""
    folder = home.store / "runs" / run_id / "attempts" / str(attempt)
    names = (path.name for path in folder.glob("node-*/rank-*.log"))
    return {int(match[1]) for name in names if (match := _LOG.fullmatch(name))}


class Place(NamedTuple):
    """The share of an attempt that an agent had."""

    run_id: str
    attempt: int
    folder: Path
    since: float


def agents_seen(home: Home) -> dict[Process, Place]:
    """Every agent that wrote the first event of a share, with the last share it took."""
    found: dict[Process, Place] = {}
    for path in (home.store / "runs").glob("*/attempts/*/node-*/events.jsonl"):
        run_id, attempt = path.parts[-5], int(path.parts[-3])
        for line in _read_lines(path):
            if b'"agent"' in line and (event := _decode(line)):
                who, since = Process(int(event["pid"]), int(event["start"])), float(event["at"])
                if who not in found or found[who].since < since:
                    found[who] = Place(run_id, attempt, path.parent, since)
    return found


def _read_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")
    except OSError:
        return []


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("event") == "agent" else None
