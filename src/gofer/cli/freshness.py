"""Reading commands ask the clusters first, and say how old the answer is when they cannot."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gofer.cli.screen import say
from gofer.errors import BackendError, CredentialError, StoreError
from gofer.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def refresh_active(session: Session) -> None:
    """Bring the ledger up to date if it holds a run that has not ended; costs nothing when all have."""
    from gofer.tracking.query import Filter, Query
    from gofer.tracking.rows import FINAL

    unfinished = Query(filters=(Filter("state", "!=", tuple(sorted(FINAL))),), limit=1)
    found = session.ledger.select(unfinished)
    if found:
        _refresh(session, None, found[0])


def refresh_runs(session: Session, rows: Sequence[RunRow]) -> list[RunRow]:
    """The same runs as they stand now, or as they were last seen when their cluster cannot be asked."""
    active = [row for row in rows if not row.is_final]
    if not active:
        return list(rows)
    _refresh(session, active, active[0])
    return [session.ledger.get(row.id) or row for row in rows]


def _refresh(session: Session, rows: Sequence[RunRow] | None, oldest: RunRow) -> None:
    from gofer.ops.observe import refresh

    try:
        refresh(session, rows)
    except (BackendError, CredentialError, StoreError) as error:
        seen = oldest.observed_at or oldest.submitted_at
        say(f"warning: {error.message}; the answer is {format_duration(time.time() - seen)} old")
