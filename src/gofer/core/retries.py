"""What follows an attempt of a run: another attempt, or the end of the run. Pure."""

from __future__ import annotations

from typing import Collection, Mapping, Sequence

from gofer.core import attempts
from gofer.core.attempts import AttemptRecords
from gofer.core.outcome import AttemptFields, Outcome, attempt_record
from gofer.core.states import Reason, State


def judge(facts: AttemptRecords) -> Outcome:
    """How an attempt ended. None of its processes may be running."""
    return attempts.judge(facts, restarts=attempts.MOST_RESTARTS, rebooted=False)


def earlier(number: int, facts: AttemptRecords, begun_at: float, words: str) -> AttemptFields:
    """The record of an attempt that another attempt followed. When not all of its nodes recorded their end,
    the detail is `words`.
    """
    result = judge(facts)
    if any(record is None for record in facts.exits) and result.state == State.LOST:
        result = result._replace(detail=words, ended_at=begun_at)
        if any(record is not None and record["reason"] == Reason.PREEMPTED for record in facts.exits):
            # A cluster gives the nodes only seconds before it takes them back, so one record is enough.
            result = result._replace(reason=Reason.PREEMPTED)
    return attempt_record(number, result, [], begun_at)


def should_retry(
    history: Sequence[Mapping[str, object]],
    *,
    retries: int,
    retry_on: Collection[str],
    is_cancelled: bool = False,
) -> bool:
    """Whether another attempt follows the last attempt of `history`.

    A cancelled run gets no other attempt. A preempted attempt is always followed by another, because the
    cluster itself starts the run again. Any other attempt is followed by another if its reason is in
    `retry_on` and at most `retries` attempts ended before now. Preempted attempts do not count.
    """
    reason = history[-1].get("reason")
    if is_cancelled or reason is None:
        return False
    if reason == Reason.PREEMPTED:
        return True
    counted = sum(one.get("reason") != Reason.PREEMPTED for one in history)
    return reason in retry_on and counted <= retries


def status(state: str, exit_code: int | None) -> int:
    """The exit status for a program that ends as the run did: 0 for a success, else that of the command, else
    1.
    """
    if state == State.SUCCEEDED:
        return 0
    return exit_code if exit_code is not None and 0 < exit_code < 256 else 1
