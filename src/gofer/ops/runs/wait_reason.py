"""What a run waits for, as its cluster says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.backends.base import RunRef, Waiting
from gofer.core.states import State
from gofer.errors import GoferError
from gofer.ops.submission.dependencies import waits_for
from gofer.ops.submission.send import is_here
from gofer.transport.activity import activity

if TYPE_CHECKING:
    from gofer.model.run import RunRecord
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

WAITING = (State.PENDING.value, State.QUEUED.value, State.PAUSED.value)


def waiting_for(session: Session, row: RunRow, record: RunRecord | None) -> Waiting:
    """What the cluster says a run waits for, or why it does not answer. Blocks."""
    if registry.runs_here(row.backend) and not is_here(session, row.submitter):
        who = record.submitted_by.rpartition("@")[2] if record else "another machine"
        return Waiting(
            f"it waits in the queue of {who or 'another machine'}, which can be asked only on that machine"
        )
    others = waits_for(session, record.job.after) if record is not None and record.job.after else None
    if others is not None:
        return Waiting(others)
    try:
        with activity(f"asking `{row.target}` why {row.short_id} waits"):
            found = session.backend_of(row).waiting(_reference(row))
    except GoferError as error:
        return Waiting(f"its cluster cannot be asked: {error.message}")
    if found is None and row.state == State.QUEUED:
        # The ledger is some seconds behind.
        return Waiting("it is about to start")
    return found if found is not None and found.why else Waiting(_plain(row))


def not_starting_for(session: Session, row: RunRow) -> Waiting | None:
    """What the cluster says of a run that it has given nodes to and that no node has begun, such as an image
    that cannot be pulled; None where the cluster says nothing. Blocks.
    """
    try:
        with activity(f"asking `{row.target}` why {row.short_id} does not start"):
            found = session.backend_of(row).waiting(_reference(row))
    except GoferError:
        return None
    return found if found is not None and found.why else None


def _reference(row: RunRow) -> RunRef:
    return RunRef(row.id, row.group_id, row.row_index)


def _plain(row: RunRow) -> str:
    if row.state == State.PENDING:
        return "it is recorded, and its cluster has not confirmed it yet"
    if row.state == State.PAUSED:
        return row.detail or "its cluster has suspended it"
    return row.detail or "its cluster does not say why"
