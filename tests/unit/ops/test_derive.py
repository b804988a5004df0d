"""From facts to status, case by case."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from unit.ops.run_folders import T0, attempt, failure

from gofer.core.states import RETRIED_BY_DEFAULT, Reason, State
from gofer.ops.runs.run_folder import End, ExitRecord
from gofer.ops.runs.run_status import AttemptFacts, RunFacts, RunStatus, derive, observation_of


def exited(state: str, **facts: Any) -> ExitRecord:
    whole = {"state": state, "started_at": T0 + 1, "ended_at": T0 + 5, "elapsed_s": 4.5, **facts}
    return msgspec.convert(whole, ExitRecord)


FAILED = exited("failed", reason="exit-code", detail="rank 0 exited with 3", exit_code=3)
WELL = exited("succeeded", exit_code=0)
STOPPED = exited("cancelled", reason="user", detail="aborted", exit_code=143)


def run(*attempts: AttemptFacts, nodes: int = 1, retries: int = 0, end: End | None = None) -> RunFacts:
    return RunFacts(nodes, retries, RETRIED_BY_DEFAULT, end, attempts)


def end(state: str, **facts: Any) -> End:
    return msgspec.convert({"id": "r", "state": state, **facts}, End)


CASES = {
    "nothing but the record": (run(), "pending", None),
    "an attempt that left no trace on a node": (run(AttemptFacts(1)), "starting", None),
    "set-up is running": (run(AttemptFacts(1, [None])), "starting", None),
    "ranks were started": (run(AttemptFacts(1, [None], T0 + 2)), "running", None),
    "a log is there, the event was lost": (run(AttemptFacts(1, [None], None, True)), "running", None),
    "one of two nodes has ended": (run(AttemptFacts(1, [WELL, None], T0 + 2), nodes=2), "running", None),
    "one of two nodes has failed": (run(AttemptFacts(1, [FAILED, None], T0 + 2), nodes=2), "running", None),
    "one node of two left a trace": (run(AttemptFacts(1, [WELL]), nodes=2), "running", None),
    "all well": (run(AttemptFacts(1, [WELL, WELL]), nodes=2), "succeeded", None),
    "failed": (run(AttemptFacts(1, [FAILED])), "failed", "exit-code"),
    "one failed, the other was stopped": (
        run(AttemptFacts(1, [STOPPED, FAILED]), nodes=2),
        "failed",
        "exit-code",
    ),
    "aborted": (run(AttemptFacts(1, [STOPPED, WELL]), nodes=2), "cancelled", "user"),
    "failed, one retry left": (run(AttemptFacts(1, [FAILED]), retries=1), "queued", None),
    "failed, waiting, then running": (
        run(AttemptFacts(1, [FAILED]), AttemptFacts(2, [None], T0 + 9), retries=1),
        "running",
        None,
    ),
    "failed twice, one retry": (
        run(AttemptFacts(1, [FAILED]), AttemptFacts(2, [FAILED]), retries=1),
        "failed",
        "exit-code",
    ),
    "aborted, retries left": (run(AttemptFacts(1, [STOPPED]), retries=5), "cancelled", "user"),
    "the queue's word counts": (
        run(AttemptFacts(1, [WELL]), end=end("lost", reason="node-failure")),
        "lost",
        "node-failure",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_state_and_reason(case: str) -> None:
    facts, state, reason = CASES[case]
    found = derive(facts)
    assert (found.state, found.reason) == (state, reason)


def test_a_failure_keeps_its_details_and_times() -> None:
    second = exited(
        "failed", reason="signal", exit_code=137, started_at=T0 + 20, ended_at=T0 + 30, elapsed_s=9.0
    )
    found = derive(run(AttemptFacts(1, [FAILED], T0 + 1), AttemptFacts(2, [second], T0 + 20), retries=1))
    assert found == RunStatus(
        state="failed",
        reason="signal",
        exit_code=137,
        started_at=T0 + 1,
        ended_at=T0 + 30,
        elapsed_s=9.0,
        attempts=(
            {
                "number": 1,
                "state": "failed",
                "reason": "exit-code",
                "detail": "rank 0 exited with 3",
                "exit_code": 3,
                "started_at": T0 + 1,
                "ended_at": T0 + 5,
            },
            {
                "number": 2,
                "state": "failed",
                "reason": "signal",
                "exit_code": 137,
                "started_at": T0 + 20,
                "ended_at": T0 + 30,
            },
        ),
    )


def test_the_first_failure_over_all_nodes_names_the_cause() -> None:
    late = exited("failed", reason="exit-code", exit_code=1, first_failure=failure(0, T0 + 4))
    early = exited("failed", reason="out-of-memory", exit_code=137, first_failure=failure(5, T0 + 3))
    found = derive(run(AttemptFacts(1, [late, early]), nodes=2))
    assert (found.reason, found.exit_code) == ("out-of-memory", 137)


def test_an_attempt_that_another_followed_without_an_exit_record_was_lost() -> None:
    found = derive(run(AttemptFacts(1, [None], T0 + 1), AttemptFacts(2, [WELL], T0 + 9), retries=1))
    assert found.state == "succeeded"
    assert found.attempts[0] == {
        "number": 1,
        "state": "lost",
        "reason": "node-failure",
        "started_at": T0 + 1,
    }


def test_a_running_run_knows_when_it_started_first() -> None:
    found = derive(run(AttemptFacts(1, [FAILED], T0 + 1), AttemptFacts(2, [None], T0 + 9), retries=1))
    assert (found.started_at, found.ended_at, len(found.attempts)) == (T0 + 1, None, 1)


def test_an_end_is_taken_as_it_is_and_its_attempts_in_the_ledger_s_form() -> None:
    times = {"started_at": T0, "ended_at": T0 + 1, "elapsed_s": 0.9}
    tries = [attempt(1, "succeeded", gpus=[[0, 1]])]
    found = derive(run(end=end("succeeded", exit_code=0, attempts=tries, **times)))
    assert found[:7] == ("succeeded", None, None, 0, T0, T0 + 1, 0.9)
    assert found.attempts == (
        {"number": 1, "state": "succeeded", "started_at": T0 + 1, "ended_at": T0 + 5, "gpus": ((0, 1),)},
    )


def test_an_attempt_in_words_of_a_later_version_is_kept_as_it_is() -> None:
    odd = {"number": 1, "state": "teleported"}
    assert derive(run(end=end("failed", attempts=[odd]))).attempts == (odd,)


ODD_ATTEMPTS: list[dict[str, Any]] = [
    {"number": "x", "state": "failed"},
    {"number": 2, "state": "a later word"},
    {"number": 1, "state": "failed", "ended_at": "soon"},
    {"number": 1, "state": "failed", "\udcff": 1},
    {"number": 10**30},
    {},
]


@pytest.mark.parametrize("attempt", ODD_ATTEMPTS)
def test_an_end_with_odd_attempts_is_an_observation(attempt: dict[str, Any]) -> None:
    end = End(id="r", state=State.FAILED, reason="a later word", exit_code=3, attempts=[attempt])
    found = observation_of("r", derive(RunFacts(nodes=1, end=end)))
    assert (found.run_id, found.state, found.reason, found.exit_code) == ("r", State.FAILED, None, 3)
    assert len(found.attempts) == 1


def test_an_end_is_an_observation_with_its_attempts() -> None:
    attempts = [{"number": 1, "state": "failed", "reason": "signal", "exit_code": 137, "ended_at": 5.0}]
    end = End(id="r", state=State.FAILED, reason="signal", ended_at=5.0, attempts=attempts)
    found = observation_of("r", derive(RunFacts(nodes=1, end=end)))
    assert (found.reason, found.ended_at) == (Reason.SIGNAL, 5.0)
    assert (found.attempts[0].state, found.attempts[0].exit_code) == (State.FAILED, 137)


@pytest.mark.parametrize("attempt", ODD_ATTEMPTS)
def test_an_odd_attempt_has_a_number_and_a_state_in_the_ledger(attempt: dict[str, Any]) -> None:
    (found,) = derive(RunFacts(nodes=1, end=End(id="r", state=State.FAILED, attempts=[attempt]))).attempts
    assert (type(found["number"]), type(found["state"])) == (int, str)
