"""How a node's share of an attempt ended, and its exit record."""

from __future__ import annotations

import signal
import time
from typing import Callable, NamedTuple

from gofer.core.outcome import ExitFields, FailureFields, Outcome, RankFields
from gofer.core.states import Reason, State
from gofer.node.out_of_memory import Kills, ran_out
from gofer.node.watch import ProcessEnd, WatchResult

# The last lines of a rank's log.
Tail = Callable[[int], "list[str]"]


class AttemptFailed(Exception):
    """The attempt cannot continue. `outcome` is what to record."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


class Abandoned(Exception):
    """Another node of the attempt is missing and nothing was started on this node, so the attempt can start
    again.
    """


class RunningSince(NamedTuple):
    """When the ranks were started, by the wall clock and by the monotonic clock."""

    at: float
    since: float


def judge(watched: WatchResult, *, tail: Tail, kills: Kills, limit_s: float | None) -> Outcome:
    """The outcome from the ends of the ranks. `kills` must have been marked when no rank had failed yet."""
    if watched.cause == "time-limit":
        return Outcome(State.FAILED, Reason.TIME_LIMIT, f"stopped at its time limit of {limit_s:g} s")
    if watched.cause == "shutdown":
        words = "its agent was ended from outside, for example by a shutdown of the machine"
        return Outcome(State.LOST, Reason.NODE_FAILURE, words)
    if watched.cause is not None:
        words = "aborted" if watched.cause == "user" else "stopped because another node failed"
        return Outcome(State.CANCELLED, Reason.USER, words)
    first = watched.first_failure
    if first is None:
        return Outcome(State.SUCCEEDED)
    if ran_out(first, watched.ended, kills=kills, tail=tail(first.rank)):
        return Outcome(State.FAILED, Reason.OUT_OF_MEMORY, f"rank {first.rank} ran out of memory")
    if first.signal is not None:
        words = f"rank {first.rank} was killed by {_signal_name(first.signal)}"
        return Outcome(State.FAILED, Reason.SIGNAL, words)
    return Outcome(State.FAILED, Reason.EXIT_CODE, f"rank {first.rank} exited with {first.exit_code}")


def encode(
    node: int, outcome: Outcome, *, watched: WatchResult | None, tail: Tail, running: RunningSince | None
) -> ExitFields:
    """The content of `exit.json`; `watched` and `running` are None when no rank was started."""
    first = watched.first_failure if watched else None
    ended = sorted(watched.ended) if watched else []
    worst = first or next((end for end in ended if end.failed), None)
    outcome = outcome._replace(
        exit_code=worst.status if worst else (0 if outcome.state == State.SUCCEEDED else None),
        started_at=running and running.at,
        ended_at=time.time(),
        elapsed_s=time.monotonic() - running.since if running else 0.0,
    )
    fields = outcome.encode()
    # The order of the keys in `exit.json`.
    return {
        "node": node,
        "state": fields["state"],
        "reason": fields["reason"],
        "detail": fields["detail"],
        "exit_code": fields["exit_code"],
        "signal": worst.signal if worst else None,
        "first_failure": _failure(first, tail(first.rank)) if first else None,
        "started_at": fields["started_at"],
        "ended_at": fields["ended_at"],
        "elapsed_s": fields["elapsed_s"],
        "ranks": [_rank(end) for end in ended],
    }


def _failure(first: ProcessEnd, tail: list[str]) -> FailureFields:
    return {
        "rank": first.rank,
        "exit_code": first.exit_code,
        "signal": first.signal,
        "at": first.at,
        "tail": tail,
    }


def _rank(end: ProcessEnd) -> RankFields:
    return {
        "rank": end.rank,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "pid": end.pid,
        "ended_at": end.at,
    }


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"
