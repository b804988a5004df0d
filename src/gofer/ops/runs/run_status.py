"""Derive the status of a run from the facts in its folder alone. Pure: no store, no clock, no cluster.

The status is only what the facts prove. A final state needs a line in the list of ends, or the exit record of
every node of the last attempt and a retry policy that allows no other attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from gofer.core import attempts as rules
from gofer.core.outcome import ExitFields, Outcome
from gofer.core.retries import should_retry
from gofer.core.states import Reason, State
from gofer.model.bounds import Count
from gofer.model.decode import convert
from gofer.model.run import Attempt, LedgerAttempt, Observation
from gofer.ops.runs.run_folder import End, ExitRecord

_MOST_NUMBER = 1e11
_MOST_TEXT = 10_000
# The fields of an attempt that are numbers or absent.
_NUMBERS = ("exit_code", "started_at", "ended_at", "elapsed_s")


class AttemptFacts(NamedTuple):
    """What the node folders of one attempt hold. `started_at` is when a node reported that its ranks run.

    `has_logs`: the log of a rank exists, which proves that its command was started.
    """

    number: int
    exits: Sequence[ExitRecord | None] = ()
    started_at: float | None = None
    has_logs: bool = False


class RunFacts(NamedTuple):
    """The facts in a folder about one run. `nodes` and the retry policy come from its record."""

    nodes: int
    retries: int = 0
    retry_on: tuple[Reason, ...] = ()
    end: End | None = None
    attempts: tuple[AttemptFacts, ...] = ()


class RunStatus(NamedTuple):
    """The columns of the ledger that change while a run exists."""

    state: str
    reason: str | None = None
    detail: str | None = None
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    elapsed_s: float | None = None
    attempts: tuple[LedgerAttempt, ...] = ()


def derive(facts: RunFacts) -> RunStatus:
    """The status from the run's line in the list of ends, else what the attempts prove; `pending` without
    attempts.
    """
    if facts.end is not None:
        return _as_ended(facts.end)
    if not facts.attempts:
        return RunStatus(State.PENDING.value)
    earlier = tuple(_settled(one, facts.nodes).encode() for one in facts.attempts[:-1])
    last = facts.attempts[-1]
    started_at = next((one.started_at for one in facts.attempts if one.started_at is not None), None)
    result = _judge(last, facts.nodes)
    if result is None:
        has_started = last.started_at is not None or last.has_logs or any(last.exits)
        state = State.RUNNING if has_started else State.STARTING
        return RunStatus(state.value, started_at=started_at, attempts=earlier)
    attempts = (*earlier, _attempt(last.number, result).encode())
    if should_retry(attempts, retries=facts.retries, retry_on=facts.retry_on):
        return RunStatus(State.QUEUED.value, attempts=attempts)
    result = result._replace(started_at=attempts[0].get("started_at"))
    return RunStatus(**result.encode(), attempts=attempts)


def plain_attempt(one: Mapping[str, object]) -> LedgerAttempt:
    """An attempt in the form of the ledger. If a newer gofer wrote it, only simple values are kept, and as
    numbers only numbers.
    """
    known = convert(one, Attempt)
    if known is not None:
        return known.encode()
    plain: dict[str, Any] = {
        name: value
        for name, value in one.items()
        if _is_plain(value) and (name not in _NUMBERS or not isinstance(value, str))
    }
    number, state = convert(plain.get("number"), Count), convert(plain.get("state"), str)
    return cast("LedgerAttempt", {**plain, "number": number or 0, "state": state or State.UNKNOWN.value})


def known_attempt(one: Mapping[str, object]) -> Attempt:
    """An attempt as an object. If it has unknown words, only its number is used."""
    number = convert(one.get("number"), Count)
    return convert(one, Attempt) or Attempt(number=number or 0, state=State.UNKNOWN)


def observation_of(run_id: str, status: RunStatus) -> Observation:
    """The observation that a folder proves. An unknown reason is left out."""
    known = status._asdict()
    return Observation(
        **{
            **known,
            "run_id": run_id,
            "state": State(status.state),
            "reason": convert(status.reason, Reason),
            "attempts": tuple(known_attempt(one) for one in status.attempts),
        }
    )


def _is_plain(value: object) -> bool:
    """Whether the ledger and its readers can hold the value: text, or a number of limited size."""
    if isinstance(value, (int, float)):
        return abs(value) < _MOST_NUMBER
    return value is None or (isinstance(value, str) and len(value) < _MOST_TEXT)


def _as_ended(end: End) -> RunStatus:
    known = {name: getattr(end, name) for name in Outcome._fields}
    attempts = tuple(plain_attempt(one) for one in end.attempts)
    return RunStatus(**{**known, "state": end.state.value}, attempts=attempts)


def _judge(attempt: AttemptFacts, nodes: int) -> Outcome | None:
    """The outcome by the same rules as the queue; None while a node has no exit record."""
    exits = [one for one in attempt.exits if one is not None]
    if len(exits) < max(nodes, 1):
        return None
    # When the cluster takes one node away, failures on other nodes are consequences.
    taken = [one for one in exits if one.reason == Reason.PREEMPTED]
    records: list[ExitFields | None] = [msgspec.to_builtins(one) for one in taken or exits]
    return rules.judge(rules.AttemptRecords(records, True), restarts=0, rebooted=False)


def _settled(attempt: AttemptFacts, nodes: int) -> Attempt:
    """An attempt that another attempt followed. Without all exit records it was lost; it was preempted if one
    of its nodes recorded that.
    """
    result = _judge(attempt, nodes)
    if result is not None:
        return _attempt(attempt.number, result)
    is_taken = any(one is not None and one.reason == Reason.PREEMPTED for one in attempt.exits)
    reason = Reason.PREEMPTED if is_taken else Reason.NODE_FAILURE
    return Attempt(number=attempt.number, state=State.LOST, reason=reason, started_at=attempt.started_at)


def _attempt(number: int, result: Outcome) -> Attempt:
    return Attempt(number=number, **result._replace(elapsed_s=None)._asdict())
