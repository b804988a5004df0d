"""Stop runs: gracefully, then firmly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.agent.states import State
from gofer.backends.base import DecidesGrace, RunRef
from gofer.errors import CredentialError, Interrupted, Unreachable
from gofer.ops.observe import refresh, wait
from gofer.ops.repair import CANCEL_ASKED

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_PATIENCE_S = 60.0
_SOON_S = 5.0


def abort(
    session: Session,
    rows: Sequence[RunRow],
    *,
    grace_s: float | None = None,
    patience_s: float = _PATIENCE_S,
) -> list[RunRow]:
    """Ask for the end of runs or whole groups and wait for it; runs that have ended are left as they are, and
    those that were recorded and never sent are not sent any more.

    Returns the runs as they are then. Interrupted when the cluster does not end them in time; it still will.
    """
    _keep_back(session, rows)
    living = [row for one in rows if (row := session.ledger.get(one.id)) is not None and not row.is_final]
    by_target: dict[tuple[str, str], list[RunRow]] = {}
    for row in living:
        by_target.setdefault((row.target, row.store), []).append(row)
    asked = [_ask(session, group, grace_s) for group in by_target.values()]
    try:
        _await_end(session, [row.id for row in living], patience_s + (grace_s or 0.0))
    except Interrupted as late:
        hint = "`gofer abort --grace 0` ends it at once"
        if any(_decides_grace(backend) for backend in asked):
            hint = "`gofer wait` waits for it: its service ends it in its own time"
        raise Interrupted(f"asked to stop, {late.message}", hint=hint) from None
    return [row for one in rows if (row := session.ledger.get(one.id)) is not None]


def _keep_back(session: Session, rows: Sequence[RunRow]) -> None:
    """How they stand now, after which none is sent that was not: see `gofer.ops.repair`."""
    unsent = [row for row in rows if row.state == State.PENDING and row.group_id is None]
    for row in unsent:
        session.ledger.add_event(row.id, time.time(), CANCEL_ASKED, {})
    try:
        refresh(session, rows)
    except (Unreachable, CredentialError) as error:
        if unsent:
            names = ", ".join(row.short_id for row in unsent)
            told = (
                f"{names} is not sent any more; if its cluster has it all the same, a later command stops it"
            )
            error.hint = told if error.hint is None else f"{error.hint}; {told}"
        raise


def _ask(session: Session, group: Sequence[RunRow], grace_s: float | None) -> Backend:
    """Runs of one target."""
    backend = session.backend_of(group[0])
    if grace_s is not None and _decides_grace(backend):
        session.say(f"the service of `{group[0].target}` decides itself how long a run may take to end")
    refs = [
        RunRef(row.id, row.group_id, row.row_index, row.size if row.kind == "group" else 0) for row in group
    ]
    backend.cancel(refs, grace_s=grace_s)
    for row in group:
        session.ledger.add_event(row.id, time.time(), CANCEL_ASKED, {"grace_s": grace_s})
    return backend


def _decides_grace(backend: Backend) -> bool:
    return isinstance(backend, DecidesGrace) and backend.decides_grace


def _await_end(session: Session, ids: Sequence[str], patience_s: float) -> None:
    """What takes longer than a moment is said."""
    try:
        wait(session, ids, timeout_s=_SOON_S, heard=True)
    except Interrupted:
        session.say("asked to stop; waiting for the end")
        wait(session, ids, timeout_s=max(patience_s - _SOON_S, 0.0), heard=True)
