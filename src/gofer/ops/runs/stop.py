"""Stop runs: gracefully, then firmly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.backends.base import RunRef
from gofer.core.states import State
from gofer.errors import BackendError, CredentialError, Interrupted, Unreachable
from gofer.ops.maintenance.repair import CANCEL_ASKED
from gofer.ops.messages import Message
from gofer.ops.runs.observe import by_backend, expand, refresh, wait
from gofer.ops.runs.run_origin import submitted_by
from gofer.ops.submission.send import is_here
from gofer.text import count_runs
from gofer.transport.activity import activity

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_PATIENCE_S = 60.0
_SOON_S = 5.0
# After this time, check whether a supervisor works off the queue.
_STALLED_S = 20.0


def abort(
    session: Session,
    rows: Sequence[RunRow],
    *,
    grace_s: float | None = None,
    patience_s: float = _PATIENCE_S,
) -> list[RunRow]:
    """Stop runs or whole groups, and wait for their end; the runs as they are then. Blocks.

    Runs that have ended stay as they are. Runs that were recorded but not sent are not sent. Interrupted when
    the cluster does not end them in time; it still will. BackendError when no supervisor works off its queue,
    and, before anything is stopped, when one of the runs cannot be stopped from this machine.
    """
    foreign = [row for row in rows if not row.is_final and not is_here(session, row.submitter)]
    refresh(session, foreign)
    for group in by_backend(_living(session, foreign)):
        _check_known(session, group)
    _keep_back(session, rows)
    living = _living(session, rows)
    asked = [_ask(session, group, grace_s) for group in by_backend(living)]
    try:
        _await_end(session, [row.id for row in living], patience_s + (grace_s or 0.0), asked)
    except Interrupted as late:
        hint = "`gofer abort --grace 0` ends it at once"
        if any(backend.capabilities.decides_grace for backend in asked):
            hint = "`gofer wait` waits for it: its service decides when it ends"
        raise Interrupted(f"asked to stop, {late.message}", hint=hint) from None
    return [row for one in rows if (row := session.ledger.get(one.id)) is not None]


def _living(session: Session, rows: Sequence[RunRow]) -> list[RunRow]:
    """The runs that have not ended, as the ledger has them now."""
    return [row for one in rows if (row := session.ledger.get(one.id)) is not None and not row.is_final]


def _check_known(session: Session, group: Sequence[RunRow]) -> None:
    """BackendError when a run that another machine recorded is unknown to the cluster that this machine can
    ask. All runs must be of one target.
    """
    known: set[str | None] = set()
    if not registry.runs_here(
        group[0].backend
    ):  # the queue of this machine has only runs that were recorded here
        single = expand(session, group)
        seen = session.backend_of(group[0]).observe([_ref(row) for row in single])
        known = {one for row in single if row.id in seen for one in (row.id, row.group_id)}
    unknown = [row for row in group if row.id not in known]
    if unknown:
        raise _recorded_elsewhere(session, unknown)


def _recorded_elsewhere(session: Session, rows: Sequence[RunRow]) -> BackendError:
    row = rows[0]
    names = " ".join(one.short_id for one in rows)
    who = submitted_by(session, row) or "another machine"
    queue = (
        "its queue" if registry.runs_here(row.backend) else f"the target `{row.target}` of the settings there"
    )
    return BackendError(
        f"{names} was submitted by {who}, and only {queue} can be asked to stop it; nothing was stopped",
        hint=f"there, with the home folder (`HOME` or `GOFER_HOME`) that submitted it: `gofer abort {names}`",
    )


def _keep_back(session: Session, rows: Sequence[RunRow]) -> None:
    """Refresh the runs. Those that were not sent by now are never sent: see
    `gofer.ops.maintenance.repair`.
    """
    unsent = [row for row in rows if row.state == State.PENDING and row.group_id is None]
    for row in unsent:
        session.ledger.add_event(row.id, time.time(), CANCEL_ASKED, {})
    try:
        refresh(session, rows)
    except (Unreachable, CredentialError) as error:
        if unsent:
            names = ", ".join(row.short_id for row in unsent)
            told = f"{names} will not be sent; if its cluster has it nevertheless, a later command stops it"
            error.hint = told if error.hint is None else f"{error.hint}; {told}"
        raise


def _ask(session: Session, group: Sequence[RunRow], grace_s: float | None) -> Backend:
    """Ask the cluster to stop runs of one target; its backend."""
    backend = session.backend_of(group[0])
    if grace_s is not None and backend.capabilities.decides_grace:
        session.emit(
            Message(f"the service of `{group[0].target}` decides itself how long a run may take to end")
        )
    with activity(f"asking `{group[0].target}` to stop {count_runs(len(group))}"):
        backend.cancel([_ref(row) for row in group], grace_s=grace_s)
    for row in group:
        session.ledger.add_event(row.id, time.time(), CANCEL_ASKED, {"grace_s": grace_s})
    return backend


def _ref(row: RunRow) -> RunRef:
    return RunRef(row.id, row.group_id, row.row_index, row.size if row.kind == "group" else 0)


def _await_end(session: Session, ids: Sequence[str], patience_s: float, asked: Sequence[Backend]) -> None:
    """Wait for the end, and tell the person when it takes longer. BackendError when no supervisor works off a
    queue.
    """
    limits = (_SOON_S, min(_STALLED_S, patience_s), patience_s)
    began = time.monotonic()
    for at, limit_s in enumerate(limits):
        try:
            wait(session, ids, timeout_s=max(limit_s - (time.monotonic() - began), 0.0), heard=True)
            return
        except Interrupted as late:
            if at == 0:
                session.emit(Message("stopping; waiting for the run to end"))
                continue
            _check_stalled(session, ids, asked)
            if limit_s == patience_s:
                raise Interrupted(f"still not ended after {patience_s:g} s: {_names(session, ids)}") from late


def _check_stalled(session: Session, ids: Sequence[str], asked: Sequence[Backend]) -> None:
    for backend in asked:
        words = backend.stalled()
        if words is not None:
            raise BackendError(
                f"still stopping: {_names(session, ids)}; {words}",
                hint="the run stops as soon as its queue works again",
            )


def _names(session: Session, ids: Sequence[str]) -> str:
    rows = (session.ledger.get(one) for one in ids)
    return ", ".join(row.short_id for row in rows if row is not None and not row.is_final)
