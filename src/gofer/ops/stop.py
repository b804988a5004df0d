"""Stop runs: gracefully, then firmly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.backends.base import RunRef
from gofer.errors import Interrupted
from gofer.ops.observe import refresh, wait

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_PATIENCE_S = 60.0


def abort(session: Session, rows: Sequence[RunRow], *, grace_s: float | None = None) -> list[RunRow]:
    """Ask for the end of runs or whole groups and wait for it; runs that have ended are left as they are.

    Returns the runs as they are then. Interrupted when the cluster does not end them in time; it still will.
    """
    refresh(session, rows)
    living = [row for one in rows if (row := session.ledger.get(one.id)) is not None and not row.is_final]
    by_target: dict[tuple[str, str], list[RunRow]] = {}
    for row in living:
        by_target.setdefault((row.target, row.store), []).append(row)
    for group in by_target.values():
        refs = [
            RunRef(row.id, row.group_id, row.row_index, row.size if row.kind == "group" else 0)
            for row in group
        ]
        session.backend_of(group[0]).cancel(refs, grace_s=grace_s)
    for row in living:
        session.ledger.add_event(row.id, time.time(), "cancel-asked", {"grace_s": grace_s})
    try:
        wait(session, [row.id for row in living], timeout_s=_PATIENCE_S + (grace_s or 0.0))
    except Interrupted as late:
        raise Interrupted(
            f"asked to stop, {late.message}", hint="`gofer abort --grace 0` ends it at once"
        ) from None
    return [row for one in rows if (row := session.ledger.get(one.id)) is not None]
