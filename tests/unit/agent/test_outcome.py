"""One outcome, and the records that hold it: their keys, in their order, stay as they are."""

from __future__ import annotations

import json

import pytest

from gofer.core.outcome import Outcome, OutcomeFields, attempt_record, decode, end_line
from gofer.core.states import Reason, State
from gofer.node import exit_record
from gofer.queue.database import _COLUMNS, QueuedRun

FAILED = Outcome(State.FAILED, Reason.EXIT_CODE, "rank 0 exited with 3", 3, 10.5, 20.0, 9.5)
FIELDS = '"state":"failed","reason":"exit-code","detail":"rank 0 exited with 3","exit_code":3,'


def test_an_attempt_of_a_run() -> None:
    record = attempt_record(2, FAILED, [[0, 1]], 10.0)
    assert json.dumps(record, separators=(",", ":")) == (
        '{"number":2,' + FIELDS + '"started_at":10.5,"ended_at":20.0,"elapsed_s":9.5,"gpus":[[0,1]]}'
    )
    assert decode(record) == FAILED


def test_an_attempt_whose_outcome_has_no_start() -> None:
    assert attempt_record(1, FAILED._replace(started_at=None), [], 10.0)["started_at"] == 10.0


def test_the_line_of_an_end() -> None:
    history = [attempt_record(1, FAILED._replace(started_at=None, elapsed_s=None), [], None)]
    history.append(attempt_record(2, FAILED, [], None))
    line = end_line("r-1", 1, FAILED, history)
    words = b'{"id":"r-1","row":1,' + FIELDS.encode() + b'"started_at":10.5,"ended_at":20.0,"elapsed_s":9.5,'
    assert line.startswith(words + b'"attempts":[{"number":1,')
    assert line.endswith(b"}]}\n")


def test_a_run_that_made_no_attempt() -> None:
    line = json.loads(end_line("r", None, Outcome(State.CANCELLED, Reason.USER, "aborted", ended_at=5.0), []))
    assert list(line) == ["id", "row", *Outcome._fields, "attempts"]
    assert (line["row"], line["started_at"], line["ended_at"], line["elapsed_s"]) == (None, None, 5.0, None)


def test_a_run_starts_with_its_first_attempt_and_takes_as_long_as_all() -> None:
    history = [
        attempt_record(number, FAILED._replace(started_at=started_at, elapsed_s=elapsed_s), [], None)
        for number, (started_at, elapsed_s) in enumerate([(None, None), (4.0, 2.0), (10.5, 9.5)], 1)
    ]
    whole = FAILED.of_run(history)
    assert whole == FAILED._replace(started_at=4.0, elapsed_s=11.5)
    assert whole.of_run(history) == whole


def test_an_exit_record() -> None:
    record = exit_record.encode(
        1, Outcome(State.FAILED, Reason.SETUP, "words"), watched=None, tail=lambda rank: [], running=None
    )
    assert list(record) == [
        *("node", "state", "reason", "detail", "exit_code", "signal", "first_failure"),
        *("started_at", "ended_at", "elapsed_s", "ranks"),
    ]
    assert record["node"] == 1
    assert decode(record)[:4] == (State.FAILED, Reason.SETUP, "words", None)


def test_a_run_of_the_queue() -> None:
    run = QueuedRun([None] * len(_COLUMNS[:4]) + ["{}", 0, None, "running", *[None] * 5, "[]", "[]", "[]"])
    run.attempts = [attempt_record(1, FAILED, [], None)]
    run.end(FAILED)
    assert (run.state, run.reason, run.exit_code, run.ended_at) == ("failed", "exit-code", 3, 20.0)
    assert run.outcome == FAILED


def test_details_are_joined() -> None:
    assert FAILED.with_detail(None) == FAILED
    assert FAILED.with_detail("more").detail == "rank 0 exited with 3; more"
    assert Outcome(State.SUCCEEDED).with_detail("more").detail == "more"


@pytest.mark.parametrize(
    "record", [{}, {**FAILED.encode(), "state": "odd"}, {**FAILED.encode(), "reason": "odd"}]
)
def test_a_record_without_an_outcome(record: OutcomeFields) -> None:
    with pytest.raises((KeyError, ValueError)):
        decode(record)
