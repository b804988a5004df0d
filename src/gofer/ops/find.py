"""From what a person typed to runs of the ledger. Nothing is refreshed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def find(session: Session, reference: str, *, target: str | None = None) -> RunRow:
    """The run that an id, a unique beginning or end of one, or `last` means; with `target`, among its runs.

    A run that is not in the ledger is looked for in the stores, and then among the jobs of the services of
    all targets, or of `target`. UnknownName when there is none, UsageError with the candidates when there
    are several.
    """
    try:
        return session.ledger.resolve(reference, target=target)
    except UnknownName as error:
        from gofer.ops.discover import discover

        if discover(session, reference):
            return session.ledger.resolve(reference, target=target)
        from gofer.ops.adopt import adopt

        found = adopt(session, reference, target)
        if found.row is None:
            raise _unknown(error, found.asked) from None
        return found.row


def _unknown(error: UnknownName, asked: Sequence[str]) -> UnknownName:
    """With whom else was asked."""
    if not asked:
        return error
    names = ", ".join(f"`{name}`" for name in asked)
    who = f"the service of {names} knows" if len(asked) == 1 else f"the services of {names} know"
    return UnknownName(f"{error.message}, and {who} no such job", hint=error.hint)


def find_all(session: Session, references: Sequence[str], *, target: str | None = None) -> list[RunRow]:
    """The runs in the order given, each once; UsageError when no reference was given."""
    if not references:
        raise UsageError("no run was named", hint="`gofer list runs` shows them; `last` is the newest")
    found = {row.id: row for row in (find(session, reference, target=target) for reference in references)}
    return list(found.values())
