"""Reading commands ask the clusters first, and say how old the answer is when they cannot."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gofer.cli.screen import say
from gofer.errors import CredentialError, GoferError
from gofer.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def refresh_active(session: Session) -> None:
    """Bring the ledger up to date if it holds a run that has not ended; costs nothing when all have."""
    from gofer.agent.states import State
    from gofer.tracking.query import Filter, Query

    # Named one by one, and not as "none of the final ones", so that the index on the state is used.
    living = tuple(str(state) for state in State if not state.is_final)
    found = session.ledger.select(Query(filters=(Filter("state", "=", living),), limit=1))
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
    except GoferError as error:
        # Also a broken file of settings: what is known can be shown without it.
        seen = oldest.observed_at or oldest.submitted_at
        say(f"warning: {error.message}; the answer is {format_duration(time.time() - seen)} old")
        if isinstance(error, CredentialError) and error.hint:
            say(f"hint: {error.hint}")
