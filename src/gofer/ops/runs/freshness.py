"""What to show when a cluster cannot be asked: the ledger's last answer, with its age.

`refresh` of `gofer.ops.runs.observe` raises when a cluster is away. Functions here do not: they warn through
`session.say`, and the caller reads what the ledger knew before. The CLI and the Python API both read so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import CredentialError, GoferError
from gofer.text import format_duration

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class StaleLedger(NamedTuple):
    """Why the ledger could not be brought up to date, and the age of its answer."""

    error: GoferError
    age_s: float


def refresh_active(session: Session) -> StaleLedger | None:
    """Bring the ledger up to date if it holds a run that has not ended; costs nothing when all have."""
    from gofer.core.states import State
    from gofer.tracking.query import Filter, Query

    # Named one by one, and not as "none of the final ones", so that the index on the state is used.
    living = tuple(str(state) for state in State if not state.is_final)
    newest = session.ledger.select(Query(filters=(Filter("state", "=", living),), limit=1))
    return _refresh(session, None, newest[0]) if newest else None


def refresh_runs(session: Session, rows: Sequence[RunRow]) -> list[RunRow]:
    """The same runs as they are now, or as they were last seen when their cluster cannot be asked."""
    active = [row for row in rows if not row.is_final]
    if not active:
        return list(rows)
    _refresh(session, active, active[0])
    return [session.ledger.get(row.id) or row for row in rows]


def _refresh(session: Session, rows: Sequence[RunRow] | None, example: RunRow) -> StaleLedger | None:
    """Also a broken file of settings only makes the answer old: the ledger can be shown without it."""
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
    session.say(f"warning: {stale.error.message}; the answer is {age} old")
    if isinstance(stale.error, CredentialError) and stale.error.hint:
        session.say(f"hint: {stale.error.hint}")
