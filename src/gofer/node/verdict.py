"""How a node's share of an attempt ended, and its exit record."""

from __future__ import annotations

import signal
import time
from typing import Any, Callable, NamedTuple

from gofer.core.states import Reason, State
from gofer.node.out_of_memory import Kills, ran_out
from gofer.node.watch import ProcessEnd, ProcessesOutcome

# The last lines of a rank's log.
Tail = Callable[[int], "list[str]"]


class Verdict(NamedTuple):
    """The state an attempt ended in on one node, and why."""

    state: State
    reason: Reason | None = None
    detail: str | None = None

    def with_detail(self, more: str | None) -> Verdict:
        """The same verdict with `more` added to its detail."""
        return self._replace(detail="; ".join(one for one in (self.detail, more) if one) or None)


class AttemptFailed(Exception):
    """The attempt cannot continue. `verdict` is what to record."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


class Abandoned(Exception):
    """Another node of the attempt is missing and nothing was started on this node, so the attempt can start
    again.
    """


class RunningSince(NamedTuple):
    """When the ranks were started, by the wall clock and by the monotonic clock."""

    at: float
    since: float


def judge(outcome: ProcessesOutcome, *, tail: Tail, kills: Kills, limit_s: float | None) -> Verdict:
    """The verdict from the ends of the ranks. `kills` must have been marked when no rank had failed yet."""
    if outcome.cause == "time-limit":
        return Verdict(State.FAILED, Reason.TIME_LIMIT, f"stopped at its time limit of {limit_s:g} s")
    if outcome.cause == "shutdown":
        words = "its agent was ended from outside, for example by a shutdown of the machine"
        return Verdict(State.LOST, Reason.NODE_FAILURE, words)
    if outcome.cause is not None:
        words = "aborted" if outcome.cause == "user" else "stopped because another node failed"
        return Verdict(State.CANCELLED, Reason.USER, words)
    first = outcome.first_failure
    if first is None:
        return Verdict(State.SUCCEEDED)
    if ran_out(first, outcome.ended, kills=kills, tail=tail(first.rank)):
        return Verdict(State.FAILED, Reason.OUT_OF_MEMORY, f"rank {first.rank} ran out of memory")
    if first.signal is not None:
        words = f"rank {first.rank} was killed by {_signal_name(first.signal)}"
        return Verdict(State.FAILED, Reason.SIGNAL, words)
    return Verdict(State.FAILED, Reason.EXIT_CODE, f"rank {first.rank} exited with {first.exit_code}")


def exit_record(
    node: int, verdict: Verdict, *, outcome: ProcessesOutcome | None, tail: Tail, running: RunningSince | None
) -> dict[str, Any]:
    """The content of `exit.json`; `outcome` and `running` are None when no rank was started."""
    first = outcome.first_failure if outcome else None
    ended = sorted(outcome.ended) if outcome else []
    worst = first or next((one for one in ended if one.failed), None)
    return {
        "node": node,
        "state": str(verdict.state),
        "reason": None if verdict.reason is None else str(verdict.reason),
        "detail": verdict.detail,
        "exit_code": worst.status if worst else (0 if verdict.state == State.SUCCEEDED else None),
        "signal": worst.signal if worst else None,
        "first_failure": {**_facts(first), "at": first.at, "tail": tail(first.rank)} if first else None,
        "started_at": running and running.at,
        "ended_at": time.time(),
        "elapsed_s": time.monotonic() - running.since if running else 0.0,
        "ranks": [{**_facts(one), "pid": one.pid, "ended_at": one.at} for one in ended],
    }


def _facts(one: ProcessEnd) -> dict[str, Any]:
    return {"rank": one.rank, "exit_code": one.exit_code, "signal": one.signal}


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"
