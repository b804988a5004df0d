"""Find the runs in the ledger that a person names. Nothing is refreshed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.errors import UnknownName, UsageError
from gofer.ops.messages import Message
from gofer.tracking.references import LAST, tidy

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


_CANDIDATES = 3


def find(session: Session, reference: str, *, target: str | None = None, acts: bool = False) -> RunRow:
    """The run that an id, a unique beginning or end of an id, or `last` names; with `target`, among its runs.

    `last` is the newest run of this project. If the project has none, it is the newest run of all, with a
    message. With `acts` the caller changes the run, so this is a UsageError that lists three ids
    instead. A run that is not in the ledger is searched in the stores, then among the jobs of the services of
    all targets, or of `target`. UnknownName when there is none, UsageError with the candidates when there are
    several.
    """
    try:
        return _known(session, reference, target, acts)
    except UnknownName as error:
        # `list runs` imports this module and must stay instant: what asks stores loads when it is used.
        from gofer.ops.maintenance.rebuild import discover

        if discover(session, reference):
            return _known(session, reference, target, acts)
        from gofer.ops.runs.adopt import adopt

        found = adopt(session, reference, target)
        if found.row is None:
            raise _unknown(error, found.asked) from None
        return found.row


def _known(session: Session, reference: str, target: str | None, acts: bool) -> RunRow:
    """Like `find`, but only in the ledger."""
    if tidy(reference) != LAST:
        return session.ledger.resolve(reference, target=target)
    project = session.project
    own = session.ledger.newest(project=project, target=target)
    if own:
        return own[0]
    others = session.ledger.newest(target=target, most=_CANDIDATES)
    if not others:
        return session.ledger.resolve(reference, target=target)
    if acts:
        listed = "\n".join(f"  {row.id}  {row.state}  {_origin(row)}" for row in others)
        raise UsageError(
            f"no run was submitted from `{project}`, and `{LAST}` is a run of this project; the newest "
            f"of all are\n{listed}",
            hint="name the run by its id",
        )
    session.emit(
        Message(
            f"no run was submitted from `{project}`; the newest of all is {others[0].id}, "
            f"{_origin(others[0])}"
        )
    )
    return others[0]


def _origin(row: RunRow) -> str:
    return f"from `{row.project}`" if row.project else f"on `{row.target}`"


def _unknown(error: UnknownName, asked: Sequence[str]) -> UnknownName:
    """The error, with the services that were asked too."""
    if not asked:
        return error
    names = ", ".join(f"`{name}`" for name in asked)
    who = f"the service of {names} knows" if len(asked) == 1 else f"the services of {names} know"
    return UnknownName(f"{error.message}, and {who} no such job", hint=error.hint)


def find_all(
    session: Session, references: Sequence[str], *, target: str | None = None, acts: bool = False
) -> list[RunRow]:
    """The named runs in order, each once; UsageError when none is named. See `find`."""
    if not references:
        raise UsageError(
            "no run was named", hint="`gofer list runs` shows them; `last` is the newest of this project"
        )
    rows = [find(session, reference, target=target, acts=acts) for reference in references]
    return list({row.id: row for row in rows}.values())
