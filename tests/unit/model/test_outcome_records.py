"""The records of an outcome on the submitting side have its fields, and their limits."""

from __future__ import annotations

import json

import msgspec
import pytest

from gofer.core.outcome import Outcome
from gofer.core.states import Reason, State
from gofer.model.decode import convert, decode
from gofer.model.run import Attempt, Observation, RecordedOutcome
from gofer.ops.runs.run_folder import ExitRecord

FAILED = Outcome(State.FAILED, Reason.SIGNAL, "killed", 137, 1.0, 5.0, 4.0)


@pytest.mark.parametrize("kind", [RecordedOutcome, Attempt, Observation, ExitRecord])
def test_every_record_of_an_outcome_gives_it_back(kind: type[RecordedOutcome]) -> None:
    found = convert({"number": 1, "run_id": "r", **FAILED.encode()}, kind)
    assert found is not None
    assert found.outcome == FAILED


def test_an_attempt_in_the_ledger_begins_with_its_number_and_leaves_out_defaults() -> None:
    attempt = Attempt(number=2, gpus=((0, 1), (2,)), **FAILED._replace(detail=None)._asdict())
    assert json.dumps(attempt.encode()) == (
        '{"number": 2, "state": "failed", "reason": "signal", "exit_code": 137, "started_at": 1.0, '
        '"ended_at": 5.0, "elapsed_s": 4.0, "gpus": [[0, 1], [2]]}'
    )


@pytest.mark.parametrize(
    "change", [{"exit_code": 2**40}, {"ended_at": 1e12}, {"state": "odd"}, {"reason": 3}]
)
def test_a_record_outside_the_limits_is_no_record(change: dict[str, object]) -> None:
    assert convert({"number": 1, **FAILED.encode(), **change}, Attempt) is None


def test_an_exit_record_needs_its_end() -> None:
    assert decode(b'{"state": "lost"}', ExitRecord) is None
    found = decode(b'{"state": "lost", "ended_at": 5.0}', ExitRecord)
    assert found is not None
    assert {"detail", "exit_code", "started_at", "elapsed_s"} <= set(msgspec.to_builtins(found))
