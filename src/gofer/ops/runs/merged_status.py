"""Combine what a cluster says about a run with what the run's folder proves.

A scheduler knows that a job ended, and the run's folder knows how its command ended. If the folder proves an
end, that counts; otherwise the scheduler's answer does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.core.states import Reason, State
from gofer.model.run import Attempt, Observation, RunRecord
from gofer.ops.maintenance.rebuild import statuses_of
from gofer.ops.runs.run_folder import decode
from gofer.ops.runs.run_status import observation_of

if TYPE_CHECKING:
    from gofer.ops.runs.run_status import RunStatus
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

# A shared file system shows a change to other machines within this time.
_LAG_S = 45.0
_GOING = (State.RUNNING, State.STARTING)
# After a preemption, a run is in the cluster's queue again, or suspended until there is room.
_SET_ASIDE = (State.QUEUED, State.PAUSED)


class Settled(NamedTuple):
    """Observations by run id. `unproven` are runs of which their folders prove nothing."""

    seen: dict[str, Observation]
    unproven: set[str]


def settled(session: Session, rows: Sequence[RunRow], seen: Mapping[str, Observation]) -> Settled:
    """The observations. Those of runs that ended, were requeued or are unknown are completed from their
    folders. StoreError passes through.
    """
    found, unproven = dict(seen), set[str]()
    unclear = [row for row in rows if row.id in seen and _is_unclear(row, seen[row.id])]
    for owner_id in dict.fromkeys(row.group_id or row.id for row in unclear):
        owner = session.ledger.get(owner_id)
        if owner is None or not owner.record:
            continue
        record = decode(owner.record, RunRecord)
        if record is None:
            continue  # nothing is known of its layout or retries
        mine = [row for row in unclear if (row.group_id or row.id) == owner_id]
        for run_id, status in statuses_of(session.runs_in(owner.store), mine, record).items():
            found[run_id] = joined(seen[run_id], status)
            if status.state == State.PENDING:
                unproven.add(run_id)
    return Settled(found, unproven)


def _is_unclear(row: RunRow, one: Observation) -> bool:
    if one.state.is_final:
        return not one.attempts
    if one.state == State.PAUSED and not row.attempts:
        return True  # the record of the last attempt may have arrived after the pause
    return one.state == State.UNKNOWN or (one.state in _SET_ASIDE and row.state in _GOING)


def joined(one: Observation, status: RunStatus) -> Observation:
    """Combine the cluster's answer and the folder's proof for one run. Pure, except for the clock."""
    if status.state == State.PENDING:
        return one
    proven = observation_of(one.run_id, status)
    attempts = proven.attempts
    if one.state in _SET_ASIDE:
        return msgspec.structs.replace(one, attempts=attempts)
    if proven.state.is_final or one.state == State.UNKNOWN:
        return proven
    if _may_be_late(one):
        return Observation(run_id=one.run_id, state=State.RUNNING, started_at=one.started_at)
    return msgspec.structs.replace(one, attempts=_ended(attempts, one, status))


def _may_be_late(one: Observation) -> bool:
    """Whether the job ended so recently that the record of its last program may not be visible yet."""
    by_itself = one.state == State.SUCCEEDED or one.reason == Reason.EXIT_CODE
    return by_itself and one.ended_at is not None and time.time() - one.ended_at < _LAG_S


def _ended(attempts: tuple[Attempt, ...], one: Observation, status: RunStatus) -> tuple[Attempt, ...]:
    """The attempts, the last one completed by the scheduler's answer, because it left no records of its own.

    A folder whose last attempt has no exit records describes only the other attempts.
    """
    is_told = status.state == State.QUEUED
    earlier = attempts[:-1] if is_told else attempts
    started_at = attempts[-1].started_at if is_told and attempts else one.started_at
    result = one.outcome._replace(started_at=started_at, elapsed_s=None)
    return (*earlier, Attempt(number=earlier[-1].number + 1 if earlier else 1, **result._asdict()))
