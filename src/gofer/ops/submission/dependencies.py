"""The runs that a run waits for: `gofer submit --after RUN`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.core.states import State
from gofer.errors import CheckFailed
from gofer.model.job import RunDependency
from gofer.ops.messages import Message
from gofer.ops.runs.find import find
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.run_records import RunRecords

if TYPE_CHECKING:
    from gofer.config.targets import Target
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_CONDITIONS = {"ok": True, "any": False}
_ENDS = {State.FAILED: "failed", State.CANCELLED: "was cancelled", State.LOST: "was lost"}


def read_dependencies(session: Session, texts: Iterable[str], target: Target) -> tuple[RunDependency, ...]:
    """The runs that are still to end, of texts like `RUN`, `RUN:ok` and `RUN:any`. Asks their cluster.

    A run that has ended as it should is left out, with a message. CheckFailed for a run of another target,
    for one that did not succeed as it should, and for a target that cannot hold runs. UsageError or
    UnknownName for a text that names no run.
    """
    given = dict.fromkeys(texts)
    if given and not registry.capabilities_of(target).holds_runs:
        raise CheckFailed(
            f"the target `{target.name}` cannot hold a run until another one has ended",
            hint="`gofer wait RUN && gofer submit …` submits it then",
        )
    found: dict[str, RunDependency] = {}
    for text in given:
        row, ok = _named_run(session, text)
        _check_target(row, text, target)
        if _is_open(session, row, ok=ok):
            record = RunRecords(session).of(row)
            placement = "" if record is None else record.placement
            found[row.id] = RunDependency(run=row.id, ok=ok, placement=placement)
    return tuple(found.values())


def open_dependencies(session: Session, known: Sequence[RunDependency]) -> tuple[RunDependency, ...]:
    """Those of an earlier submission that have not ended. Asks their cluster. A repeated run does not wait
    for runs that have ended, however they did.
    """
    rows = [row for one in known if (row := session.ledger.get(one.run)) is not None]
    waiting = {row.id for row in refresh_runs(session, rows) if not row.is_final}
    return tuple(one for one in known if one.run in waiting)


def waits_for(session: Session, known: Sequence[RunDependency]) -> str | None:
    """What a queued run waits for, in words; None when every run that it waits for has ended. Asks their
    cluster.
    """
    left = {one.run: one for one in open_dependencies(session, known)}
    rows = [row for run_id in left if (row := session.ledger.get(run_id)) is not None]
    parts = [
        f"{row.short_id} to {'succeed' if left[row.id].ok else 'end'} (it is {row.state})" for row in rows
    ]
    return f"it waits for {' and for '.join(parts)}" if parts else None


def _named_run(session: Session, text: str) -> tuple[RunRow, bool]:
    reference, colon, word = text.rpartition(":")
    if not colon or word not in _CONDITIONS:
        reference, word = text, "ok"
    return find(session, reference, acts=True), _CONDITIONS[word]


def _check_target(row: RunRow, text: str, target: Target) -> None:
    if row.target != target.name or row.backend != target.kind:
        raise CheckFailed(
            f"`--after {text}`: {row.short_id} is a run of the target `{row.target}`, and a run of the "
            f"target `{target.name}` waits only for runs of `{target.name}`",
            hint=f"`gofer wait {row.short_id} && gofer submit …` submits it then",
        )


def _is_open(session: Session, row: RunRow, *, ok: bool) -> bool:
    (row,) = refresh_runs(session, [row])
    if not row.is_final:
        return True
    if ok and row.state != State.SUCCEEDED:
        raise CheckFailed(
            f"after {row.short_id}: it {_ENDS[State(row.state)]}",
            hint=f"`gofer why {row.short_id}`; `--after {row.short_id}:any` also waits for runs that fail",
        )
    session.emit(Message(f"{row.short_id} has ended already ({row.state})"))
    return False
