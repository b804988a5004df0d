"""From the facts in an attempt's node folders to how the attempt ended.

Reads files, decides nothing by guess.
"""

from __future__ import annotations

import glob
import os
import time
from typing import Any, Mapping, NamedTuple, Sequence

from gofer.core import files, processes, run_layout
from gofer.core.states import Reason, State

MOST_RESTARTS = 5


class AttemptRecords(NamedTuple):
    """What the node folders of one attempt hold."""

    exits: list[dict[str, Any] | None]
    started: bool


class Outcome(NamedTuple):
    """How an attempt ended; `state` queued means that nothing was started and it is to be started again."""

    state: State
    reason: Reason | None
    detail: str | None
    exit_code: int | None
    started_at: float | None
    ended_at: float
    elapsed_s: float | None


def read(store: str, run_id: str, attempt: int, nodes: int) -> AttemptRecords:
    exits, started = [], False
    for node in range(nodes):
        path = os.path.join(store, run_layout.node_key(run_id, attempt, node))
        exits.append(files.read_json(os.path.join(path, run_layout.EXIT)))
        started = started or bool(exits[-1]) or bool(glob.glob(os.path.join(glob.escape(path), "rank-*.log")))
    return AttemptRecords(exits, started)


def agent_of(store: str, run_id: str, attempt: int, node: int) -> processes.ProcessIdentity | None:
    """The agent process that last began this node's share, alive or not; None when it gave the share up."""
    for event in reversed(_events(store, run_id, attempt, node)):
        if event.get("event") == "abandoned":
            return None
        if event.get("event") == "agent":
            return processes.ProcessIdentity(int(event["pid"]), int(event["start"]))
    return None


def agents_beside(store: str, run_id: str, attempt: int, node: int) -> list[processes.ProcessIdentity]:
    """The agents of the attempt's other nodes that said who they are, alive or not."""
    folders = glob.glob(os.path.join(glob.escape(store), run_layout.node_key(run_id, attempt, 0)[:-1] + "*"))
    others = {int(path.rpartition("-")[2]) for path in folders} - {node}
    found = (agent_of(store, run_id, attempt, other) for other in sorted(others))
    return [one for one in found if one is not None]


def sessions_of(store: str, run_id: str, attempt: int, node: int) -> list[int]:
    """The sessions that the ranks of this node led."""
    for event in reversed(_events(store, run_id, attempt, node)):
        if event.get("event") == "started":
            return [int(pid) for pid in event["pids"].values()]
    return []


def _events(store: str, run_id: str, attempt: int, node: int) -> list[dict[str, Any]]:
    try:
        with open(
            os.path.join(store, run_layout.node_key(run_id, attempt, node), run_layout.EVENTS), "rb"
        ) as file:
            return list(files.read_lines(file.read()))
    except OSError:
        return []


def judge(facts: AttemptRecords, *, restarts: int, rebooted: bool) -> Outcome:
    """The result of an attempt none of whose agents is alive."""
    exits = [record for record in facts.exits if record is not None]
    failed = [record for record in exits if record["state"] == State.FAILED]
    if failed:
        return _from_record(min(failed, key=_failed_at), exits)
    if len(exits) == len(facts.exits):
        stopped = [record for record in exits if record["state"] != State.SUCCEEDED]
        lost = [record for record in stopped if record["state"] == State.LOST]
        telling = [record for record in exits if record["detail"]]
        return _from_record((lost or stopped or telling or exits)[0], exits)
    if not facts.started and not rebooted and restarts < MOST_RESTARTS:
        return Outcome(State.QUEUED, None, None, None, None, time.time(), None)
    words = "the machine restarted" if rebooted else "its agent was killed"
    return Outcome(State.LOST, Reason.NODE_FAILURE, words, None, _first_start(exits), time.time(), None)


def _failed_at(record: dict[str, Any]) -> float:
    first = record.get("first_failure")
    return float(first["at"] if first else record["ended_at"])


def _first_start(exits: list[dict[str, Any]]) -> float | None:
    return min((float(record["started_at"]) for record in exits if record["started_at"]), default=None)


def _from_record(record: dict[str, Any], exits: list[dict[str, Any]]) -> Outcome:
    reason = record["reason"]
    return Outcome(
        State(record["state"]),
        None if reason is None else Reason(reason),
        record["detail"],
        record["exit_code"],
        _first_start(exits),
        max(float(one["ended_at"]) for one in exits),
        max(float(one["elapsed_s"]) for one in exits),
    )


def spent(history: Sequence[Mapping[str, Any]]) -> int:
    """How many attempts count against `retries`: what a cluster took back, it gives again by itself."""
    return sum(one.get("reason") != Reason.PREEMPTED for one in history)


def stopped_waiting(words: str) -> Outcome:
    """The end of a run that was aborted between attempts, or before its first."""
    return Outcome(State.CANCELLED, Reason.USER, words, None, None, time.time(), None)


def describe(number: int, result: Outcome, gpus: list[list[int]], started_at: float | None) -> dict[str, Any]:
    """The attempt as the queue, the store and the ledger keep it."""
    return {
        "number": number,
        "state": result.state.value,
        "reason": None if result.reason is None else result.reason.value,
        "detail": result.detail,
        "exit_code": result.exit_code,
        "started_at": result.started_at or started_at,
        "ended_at": result.ended_at,
        "elapsed_s": result.elapsed_s,
        "gpus": gpus,
    }
