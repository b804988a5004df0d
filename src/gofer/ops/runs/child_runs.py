"""Runs that a run submitted, and that cannot start before it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.base import RunRef
from gofer.core.states import State
from gofer.errors import GoferError
from gofer.model.decode import decode
from gofer.model.run import RunRecord
from gofer.tracking.query import Filter, Query

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_WAITING = (State.PENDING.value, State.QUEUED.value)
# More waiting runs are not read.
_MOST_READ = 200


def blocked_child(session: Session, row: RunRow) -> RunRow | None:
    """A run that this running run submitted and that waits for what this run holds; None when there is none.

    Calls the cluster of the child.
    """
    if row.kind == "group" or row.state != State.RUNNING:
        return None
    filters = (Filter("state", "=", _WAITING),)
    for one in session.ledger.select(Query(filters=filters, limit=_MOST_READ, records=True)):
        record = decode(one.record, RunRecord) if one.record else None
        if record is None or record.parent != row.id:
            continue
        try:
            found = session.backend_of(one).waiting(RunRef(one.id, one.group_id, one.row_index))
        except GoferError:
            return None
        if found is not None and row.id in found.parents:
            return one
    return None


def explain_child(row: RunRow, child: RunRow) -> str:
    """A sentence for the run that may wait for its own child."""
    name, other = row.short_id, child.short_id
    reason = f"it submitted {other}, which waits for what {name} holds"
    return f"{reason}: if {name} waits for {other}, neither continues"
