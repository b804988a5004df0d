"""What the folder of a run on a cluster that starts runs again by itself proves, and what it does not."""

from __future__ import annotations

from gofer.core.states import Reason, State
from gofer.model.run import Attempt, LedgerAttempt, Observation
from gofer.ops.runs.merged_status import joined
from gofer.ops.runs.run_folder import ExitRecord
from gofer.ops.runs.run_status import AttemptFacts, RunFacts, RunStatus, derive

PREEMPTED = ExitRecord(state=State.LOST, reason=Reason.PREEMPTED, ended_at=160.0, started_at=100.0)
FAILED = ExitRecord(state=State.FAILED, reason=Reason.EXIT_CODE, ended_at=160.0, exit_code=3)
ATTEMPT: LedgerAttempt = {"number": 1, "state": "lost", "reason": "preempted", "started_at": 100.0}


def facts(*exits: ExitRecord, retries: int = 0) -> RunFacts:
    attempts = tuple(AttemptFacts(number, (one,)) for number, one in enumerate(exits, 1))
    return RunFacts(1, retries, (Reason.EXIT_CODE,), None, attempts)


def seen(state: State, reason: Reason | None = None, ended_at: float | None = 1.0) -> Observation:
    return Observation(run_id="r", state=state, reason=reason, ended_at=ended_at)


def test_a_preempted_attempt_is_not_the_end() -> None:
    found = derive(facts(PREEMPTED))
    assert (found.state, len(found.attempts)) == ("queued", 1)


def test_a_preempted_attempt_uses_up_no_retry() -> None:
    assert derive(facts(PREEMPTED, FAILED, retries=1)).state == "queued"
    assert derive(facts(PREEMPTED, FAILED, FAILED, retries=1)).state == "failed"


def test_the_folders_end_is_believed_before_the_schedulers() -> None:
    proven = RunStatus("failed", "exit-code", "rank 0 exited with 3", 3)
    assert joined(seen(State.FAILED, Reason.NODE_FAILURE), proven).exit_code == 3


def test_the_schedulers_word_completes_the_last_attempt() -> None:
    found = joined(seen(State.CANCELLED, Reason.USER), RunStatus("queued", attempts=(ATTEMPT,)))
    assert (found.state, [one.state for one in found.attempts]) == (State.CANCELLED, [State.CANCELLED])
    assert found.attempts[0].started_at == 100.0


def test_an_attempt_without_exit_records_is_the_schedulers_to_tell() -> None:
    found = joined(seen(State.FAILED, Reason.TIME_LIMIT), RunStatus("running", attempts=(ATTEMPT,)))
    assert [(one.number, one.reason) for one in found.attempts] == [
        (1, Reason.PREEMPTED),
        (2, Reason.TIME_LIMIT),
    ]


def test_a_job_that_ended_a_moment_ago_may_have_its_word_on_the_way() -> None:
    import time

    running = RunStatus("running")
    just_now = seen(State.FAILED, Reason.EXIT_CODE, ended_at=time.time())
    assert joined(just_now, running).state == State.RUNNING
    assert joined(seen(State.FAILED, Reason.EXIT_CODE), running).state == State.FAILED


def test_a_run_that_went_back_to_the_queue_shows_its_attempts() -> None:
    found = joined(seen(State.QUEUED, ended_at=None), RunStatus("queued", attempts=(ATTEMPT,)))
    assert (found.state, found.attempts) == (
        State.QUEUED,
        (Attempt(number=1, state=State.LOST, reason=Reason.PREEMPTED, started_at=100.0),),
    )


def test_what_nobody_remembers_is_what_its_folder_shows() -> None:
    assert joined(seen(State.UNKNOWN, ended_at=None), RunStatus("running")).state == State.RUNNING
    assert joined(seen(State.LOST, Reason.NODE_FAILURE), RunStatus("pending")).state == State.LOST
