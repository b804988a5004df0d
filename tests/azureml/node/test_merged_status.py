"""What gofer makes of the folder of a run on Azure ML together with the service's word."""

from __future__ import annotations

from typing import cast

import pytest

from gofer.core import retries
from gofer.core.attempts import AttemptRecords
from gofer.core.outcome import ExitFields, Outcome
from gofer.core.states import Reason, State
from gofer.model.run import Observation
from gofer.ops.runs.merged_status import joined
from gofer.ops.runs.run_folder import ExitRecord
from gofer.ops.runs.run_status import AttemptFacts, RunFacts, derive

TOLD = ExitRecord(state=State.LOST, reason=Reason.PREEMPTED, ended_at=160.0, started_at=100.0, exit_code=143)
FAILED = ExitRecord(state=State.FAILED, reason=Reason.EXIT_CODE, ended_at=160.0, exit_code=3)
STOPPED = ExitRecord(state=State.CANCELLED, reason=Reason.USER, ended_at=160.0)


def facts(*attempts: AttemptFacts, nodes: int = 2) -> RunFacts:
    return RunFacts(nodes, 0, (Reason.EXIT_CODE,), None, attempts)


def seen(state: State, reason: Reason | None = None) -> Observation:
    return Observation(run_id="r", state=state, reason=reason, ended_at=1.0)


@pytest.mark.parametrize("exits", [(TOLD, TOLD), (TOLD, FAILED), (FAILED, TOLD), (STOPPED, TOLD)])
def test_a_cancel_of_the_service_is_a_cancel_whatever_its_ranks_made_of_it(
    exits: tuple[ExitRecord, ...],
) -> None:
    status = derive(facts(AttemptFacts(1, exits, 100.0, True)))
    assert status.state == "queued"
    found = joined(seen(State.CANCELLED, Reason.USER), status)
    assert (found.state, found.reason) == (State.CANCELLED, Reason.USER)
    assert [(one.number, one.state) for one in found.attempts] == [(1, State.CANCELLED)]


@pytest.mark.parametrize("state", [State.PAUSED, State.QUEUED])
def test_a_paused_run_shows_the_attempts_that_were_taken_back(state: State) -> None:
    status = derive(facts(AttemptFacts(1, (TOLD, TOLD), 100.0, True)))
    found = joined(seen(state), status)
    assert found.state == state
    assert [(one.number, one.reason) for one in found.attempts] == [(1, Reason.PREEMPTED)]


def test_one_node_that_had_the_time_to_say_it_speaks_for_an_attempt_that_another_followed() -> None:
    first = AttemptFacts(1, (TOLD, None), 100.0, True)
    status = derive(facts(first, AttemptFacts(2, (None, None), 200.0, True)))
    assert status.state == "running"
    assert [(one["number"], one["reason"]) for one in status.attempts] == [(1, "preempted")]


def test_an_attempt_without_a_word_is_lost() -> None:
    status = derive(facts(AttemptFacts(1, (None, None), 100.0, True), AttemptFacts(2, (None, None), 200.0)))
    assert [(one["number"], one["reason"]) for one in status.attempts] == [(1, "node-failure")]


def test_a_failure_that_its_agent_could_not_write_down_is_the_services_to_tell() -> None:
    status = derive(facts(AttemptFacts(1, (None, None), 100.0, True)))
    found = joined(seen(State.FAILED, Reason.NODE_FAILURE), status)
    assert (found.state, found.reason, len(found.attempts)) == (State.FAILED, Reason.NODE_FAILURE, 1)


def test_the_nodes_and_the_readers_of_a_folder_come_to_the_same_words() -> None:
    lost = Outcome(State.LOST, Reason.PREEMPTED, "d", started_at=1.0, ended_at=2.0, elapsed_s=1.0)
    record = cast("ExitFields", lost.encode())
    result = retries.earlier(1, AttemptRecords([record, None], True), 1.0, "the service started it again")
    assert (result["state"], result["reason"], result["detail"]) == (
        "lost",
        "preempted",
        "the service started it again",
    )


@pytest.mark.parametrize(
    ("state", "code", "status"),
    [("succeeded", 0, 0), ("failed", 7, 7), ("failed", None, 1), ("lost", 143, 143), ("failed", 300, 1)],
)
def test_the_status_that_stands_for_a_run(state: str, code: int | None, status: int) -> None:
    assert retries.status(state, code) == status
