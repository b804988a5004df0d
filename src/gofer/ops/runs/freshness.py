"""When a cluster cannot be asked, use the ledger's last answer and say how old it is.

`refresh` of `gofer.ops.runs.observe` raises when a cluster does not answer. The functions here warn through
`session.emit` instead, and the caller reads the ledger. The CLI and the Python API both use them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.states import State
from gofer.errors import ConfigError, CredentialError, GoferError
from gofer.ops.messages import Hint, Warning
from gofer.text import format_duration
from gofer.tracking.query import Filter, Query

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class StaleLedger(NamedTuple):
    """Why the ledger could not be updated, and the age of its answer."""

    error: GoferError
    age_s: float


def refresh_active(session: Session) -> StaleLedger | None:
    """Update the ledger if it has a run that has not ended. Calls no cluster when all runs have ended."""
    # The open states are listed, because a query for "not final" would not use the index on the state.
    living = tuple(str(state) for state in State if not state.is_final)
    newest = session.ledger.select(Query(filters=(Filter("state", "=", living),), limit=1))
    return _refresh(session, None, newest[0]) if newest else None


def refresh_runs(session: Session, rows: Sequence[RunRow]) -> list[RunRow]:
    """The same runs as they are now, or as last observed when their cluster cannot be asked."""
    active = [row for row in rows if not row.is_final]
    if not active:
        return list(rows)
    _refresh(session, active, active[0])
    return [session.ledger.get(row.id) or row for row in rows]


def _refresh(session: Session, rows: Sequence[RunRow] | None, example: RunRow) -> StaleLedger | None:
    """Refresh. Even a broken settings file is only a warning: the ledger can be shown without it."""
    # When all runs have ended, `list runs` is instant since it loads no backend.
    from gofer.ops.runs.observe import refresh

    try:
        refresh(session, rows)
    except GoferError as error:
        stale = StaleLedger(error, time.time() - (example.observed_at or example.submitted_at))
        _warn(session, stale)
        return stale
    return None


def _warn(session: Session, stale: StaleLedger) -> None:
    age = format_duration(stale.age_s)
    session.emit(Warning(f"{stale.error.message}; showing the state from {age} ago"))
    if isinstance(stale.error, ConfigError):
        session.emit(Hint("`gofer config check` lists every error of the settings"))
    elif isinstance(stale.error, CredentialError) and stale.error.hint:
        session.emit(Hint(f"{stale.error.hint}"))
