"""How an attempt ended, from the records in its node folders.

The functions read files, and a record that is missing is never guessed.
"""

from __future__ import annotations

import glob
import os
import time
from typing import Any, NamedTuple, cast

from gofer.core import files, processes, run_layout
from gofer.core.outcome import ExitFields, Outcome, decode
from gofer.core.states import Reason, State

# An attempt whose agent died before the command started is started again, at most this often.
MOST_RESTARTS = 5


class AttemptRecords(NamedTuple):
    """What the node folders of one attempt say: an exit record per node (None when absent), whether any
    command was started, and when, if a node without an exit record wrote the time down.
    """

    exits: list[ExitFields | None]
    started: bool
    started_at: float | None = None


def read(store: str, run_id: str, attempt: int, nodes: int) -> AttemptRecords:
    exits: list[ExitFields | None] = []
    started, starts = False, []
    for node in range(nodes):
        path = os.path.join(store, run_layout.node_key(run_id, attempt, node))
        exits.append(read_exit(path))
        started = started or bool(exits[-1]) or bool(glob.glob(os.path.join(glob.escape(path), "rank-*.log")))
        if exits[-1] is None:
            starts += [at for at in [_started_at(store, run_id, attempt, node)] if at is not None]
    return AttemptRecords(exits, started, min(starts, default=None))


def read_exit(node_folder: str) -> ExitFields | None:
    """The exit record in the folder of a node; None before the node's part has ended."""
    return cast("ExitFields | None", files.read_json(os.path.join(node_folder, run_layout.EXIT)))


def _started_at(store: str, run_id: str, attempt: int, node: int) -> float | None:
    """When the ranks of a node were started, by the node's events."""
    events = _events(store, run_id, attempt, node)
    return next((float(event["at"]) for event in events if event.get("event") == "started"), None)


def agent_of(store: str, run_id: str, attempt: int, node: int) -> processes.ProcessIdentity | None:
    """The agent process that last began this node's share, alive or not. None when no agent did, or when the
    agent abandoned the share.
    """
    for event in reversed(_events(store, run_id, attempt, node)):
        if event.get("event") == "abandoned":
            return None
        if event.get("event") == "agent":
            return processes.ProcessIdentity(int(event["pid"]), int(event["start"]))
    return None


def agents_beside(store: str, run_id: str, attempt: int, node: int) -> list[processes.ProcessIdentity]:
    """The agents of the attempt's other nodes, alive or not, as far as they wrote down their process."""
    folders = glob.glob(os.path.join(glob.escape(store), run_layout.node_key(run_id, attempt, 0)[:-1] + "*"))
    others = {int(path.rpartition("-")[2]) for path in folders} - {node}
    found = (agent_of(store, run_id, attempt, other) for other in sorted(others))
    return [one for one in found if one is not None]


def sessions_of(store: str, run_id: str, attempt: int, node: int) -> list[int]:
    """The process sessions of this node's ranks; empty when no rank was started."""
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
    """How an attempt ended. No agent of the attempt may be alive."""
    exits = [record for record in facts.exits if record is not None]
    failed = [record for record in exits if record["state"] == State.FAILED]
    # The first failure explains the others: ranks often fail because a peer is gone.
    if failed:
        return _from_record(min(failed, key=_failed_at), exits)
    if len(exits) == len(facts.exits):
        stopped = [record for record in exits if record["state"] != State.SUCCEEDED]
        lost = [record for record in stopped if record["state"] == State.LOST]
        telling = [record for record in exits if record["detail"]]
        return _from_record((lost or stopped or telling or exits)[0], exits)
    if not facts.started and not rebooted and restarts < MOST_RESTARTS:
        return Outcome(State.QUEUED, ended_at=time.time())
    words = "the machine restarted" if rebooted else "its agent was killed"
    starts = [at for at in (_first_start(exits), facts.started_at) if at is not None]
    return Outcome(
        State.LOST, Reason.NODE_FAILURE, words, started_at=min(starts, default=None), ended_at=time.time()
    )


def _failed_at(record: ExitFields) -> float:
    first = record.get("first_failure")
    return first["at"] if first else record["ended_at"] or 0.0


def _first_start(exits: list[ExitFields]) -> float | None:
    return min((at for record in exits if (at := record["started_at"])), default=None)


def _from_record(record: ExitFields, exits: list[ExitFields]) -> Outcome:
    return decode(record)._replace(
        started_at=_first_start(exits),
        ended_at=max(one["ended_at"] or 0.0 for one in exits),
        elapsed_s=max(one["elapsed_s"] or 0.0 for one in exits),
    )


def stopped_waiting(words: str) -> Outcome:
    """The outcome of a run that was aborted between two attempts or before the first."""
    return Outcome(State.CANCELLED, Reason.USER, words, ended_at=time.time())
