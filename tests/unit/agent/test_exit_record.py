"""The outcome of a node from the ends of its ranks, and its exit record."""

from __future__ import annotations

import pytest

from gofer.core.outcome import Outcome
from gofer.core.states import Reason, State
from gofer.node import exit_record
from gofer.node.exit_record import RunningSince
from gofer.node.out_of_memory import Kills
from gofer.node.watch import ProcessEnd, WatchResult

DONE, FAILED = ProcessEnd(0, 10, 0, None, 5.0), ProcessEnd(1, 11, 7, None, 4.0)
KILLED = ProcessEnd(1, 11, None, 9, 4.0)


def judge(watched: WatchResult, *tail: str) -> Outcome:
    return exit_record.judge(watched, tail=lambda rank: list(tail), kills=Kills(), limit_s=90.0)


@pytest.mark.parametrize(
    ("watched", "state", "reason", "words"),
    [
        (WatchResult([DONE], None, None), State.SUCCEEDED, None, None),
        (
            WatchResult([DONE, FAILED], FAILED, None),
            State.FAILED,
            Reason.EXIT_CODE,
            "rank 1 exited with 7",
        ),
        (WatchResult([KILLED], KILLED, None), State.FAILED, Reason.SIGNAL, "killed by SIGKILL (9)"),
        (WatchResult([DONE], None, "time-limit"), State.FAILED, Reason.TIME_LIMIT, "90 s"),
        (WatchResult([DONE], None, "user"), State.CANCELLED, Reason.USER, "aborted"),
        (WatchResult([DONE], None, "peer"), State.CANCELLED, Reason.USER, "another node failed"),
        (WatchResult([DONE], None, "shutdown"), State.LOST, Reason.NODE_FAILURE, "ended from outside"),
    ],
)
def test_outcomes(watched: WatchResult, state: State, reason: Reason | None, words: str | None) -> None:
    found = judge(watched)
    assert (found.state, found.reason) == (state, reason)
    assert (words or "") in (found.detail or "")


def test_the_log_may_tell_of_memory() -> None:
    assert judge(WatchResult([FAILED], FAILED, None), "MemoryError").reason == Reason.OUT_OF_MEMORY


def test_a_signal_that_has_no_name() -> None:
    odd = ProcessEnd(0, 10, None, 60, 1.0)
    assert "signal 60" in (judge(WatchResult([odd], odd, None)).detail or "")


def test_the_record_names_the_first_failure_and_every_rank() -> None:
    watched = WatchResult([FAILED, DONE], FAILED, None)
    found = Outcome(State.FAILED, Reason.EXIT_CODE, "words")
    record = exit_record.encode(
        3, found, watched=watched, tail=lambda rank: [f"tail of {rank}"], running=RunningSince(2.0, 0.0)
    )
    assert (record["node"], record["state"], record["reason"], record["exit_code"]) == (
        3,
        "failed",
        "exit-code",
        7,
    )
    assert record["first_failure"] == {
        "rank": 1,
        "exit_code": 7,
        "signal": None,
        "at": 4.0,
        "tail": ["tail of 1"],
    }
    assert [(one["rank"], one["pid"], one["exit_code"]) for one in record["ranks"]] == [
        (0, 10, 0),
        (1, 11, 7),
    ]
    assert (record["started_at"], (record["elapsed_s"] or 0.0) > 0) == (2.0, True)


def test_the_record_of_what_never_ran() -> None:
    found = Outcome(State.FAILED, Reason.SETUP, "set-up ended with 1")
    record = exit_record.encode(0, found, watched=None, tail=lambda rank: [], running=None)
    assert (record["exit_code"], record["started_at"], record["elapsed_s"], record["ranks"]) == (
        None,
        None,
        0.0,
        [],
    )
