"""Find the runs in the ledger that a person names. Nothing is refreshed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.errors import ConfigError, UnknownName, UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.freshness import refresh_active
from gofer.text import format_duration, quote_command
from gofer.tracking.query import Filter, Query
from gofer.tracking.references import LAST, steps_back, tidy, unknown

if TYPE_CHECKING:
    from gofer.ops.runs.adopt import AdoptResult
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


_CANDIDATES = 3


def find(session: Session, reference: str | None, *, target: str | None = None, acts: bool = False) -> RunRow:
    """The run that a reference names; with `target`, among the runs of that target or group of targets.

    A reference is an id, a unique part of an id (the beginning or the end), a name, `last`, or `last~N` for
    the N-th run before the last one. `GROUP-ROW` is a row of a group. Without a reference, `last` is meant,
    and a message says which run that is.

    A name and `last` mean the newest run of this project, with a message where several runs have the name. If
    the project has none, they mean the newest run of all, with a message. With `acts` the caller changes the
    run, so a name of several runs, and `last` without a run of the project, is a UsageError with the
    candidates.

    A run that is not in the ledger is searched in the stores, then among the jobs of the services of all
    targets, or of `target`. UnknownName when there is none, UsageError with the candidates when there are
    several.
    """
    if reference is None:
        row = find(session, LAST, target=target)
        if row.project == session.project:  # otherwise a message has said which run it is
            session.emit(Message(f"{row.short_id} is the newest run: {quote_command(row.command)}"))
        return row
    try:
        return find_known(session, reference, target=target, acts=acts)
    except UnknownName as error:
        # `list runs` imports this module and must stay instant: what asks stores loads when it is used.
        from gofer.ops.maintenance.rebuild import discover

        if discover(session, reference):
            return find_known(session, reference, target=target, acts=acts)
        from gofer.ops.runs.adopt import SEARCH_TIME, adopt

        found = adopt(session, reference, target)
        if found.row is None:
            raise _unknown(error, found, SEARCH_TIME) from None
        return found.row


def find_known(session: Session, reference: str, *, target: str | None = None, acts: bool = False) -> RunRow:
    """Like `find`, but only in the ledger."""
    word = tidy(reference)
    targets = targets_meant(session, target)
    if steps_back(word) is not None:
        return _find_last(session, word, targets, acts)
    found = session.ledger.matches(word, targets=targets)
    if found.by_name and len(found.ids) > 1:
        return _find_named(session, word, targets, acts)
    return session.ledger.only(word, found, targets=targets)


def _find_last(session: Session, word: str, targets: Sequence[str], acts: bool) -> RunRow:
    """The run of `last` or `last~N`."""
    project, back = session.project, steps_back(word) or 0
    if session.ledger.newest(project=project, targets=targets):
        found = session.ledger.matches(word, targets=targets, project=project)
        if not found.ids:
            raise UnknownName(
                f"fewer than {back + 1} runs were submitted from `{project}`", hint="`gofer list runs`"
            )
        return session.ledger.only(word, found)
    others = session.ledger.newest(targets=targets, most=max(_CANDIDATES, back + 1))
    if len(others) <= back:
        raise unknown(word, targets)
    if acts:
        listed = "\n".join(f"  {row.id}  {row.state}  {_origin(row)}" for row in others[:_CANDIDATES])
        raise UsageError(
            f"no run was submitted from `{project}`, and `{LAST}` is a run of this project; the newest "
            f"of all are\n{listed}",
            hint="name the run by its id",
        )
    row = others[back]
    which = "newest" if not back else f"{word}"
    session.emit(
        Message(f"no run was submitted from `{project}`; the {which} of all is {row.id}, {_origin(row)}")
    )
    return row


def _find_named(session: Session, word: str, targets: Sequence[str], acts: bool) -> RunRow:
    """The run of a name that several runs have: the newest of the project, or of all projects."""
    own = session.ledger.matches(word, targets=targets, project=session.project)
    found = own if own.ids else session.ledger.matches(word, targets=targets)
    if acts or len(found.ids) == 1:
        return session.ledger.only(word, found, targets=targets)
    row = session.ledger.only(word, found._replace(ids=found.ids[:1]))
    age = format_duration(max(time.time() - row.submitted_at, 0.0))
    session.emit(
        Message(
            f"`{word}` is the name of {len(found.ids)} runs; the newest is {row.short_id}, {row.state}, "
            f"submitted {age} ago"
        )
    )
    return row


def targets_meant(session: Session, name: str | None) -> tuple[str, ...]:
    """The targets that a name given with `-c` means where runs are chosen: those of a group, else the target
    alone; none without a name. Settings with errors have no groups.
    """
    if name is None:
        return ()
    try:
        return session.settings.targets_of(name)
    except ConfigError:
        return (name,)


def _origin(row: RunRow) -> str:
    return f"from `{row.project}`" if row.project else f"on `{row.target}`"


def _unknown(error: UnknownName, found: AdoptResult, variable: str) -> UnknownName:
    """The error, with the services that were asked too. `variable` lets a search go on."""
    asked = found.asked
    if not asked:
        return error
    if found.unread:
        how_far = "; ".join(f"`{name}`: {words}" for name, words in found.unread.items())
        return UnknownName(
            f"{error.message}, and no job of a service that was looked at ends so ({how_far})",
            hint=f"the whole name finds a job of any age; `{variable}=10m` before the command lets it search "
            "for ten minutes",
        )
    names = ", ".join(f"`{name}`" for name in asked)
    who = f"the service of {names} knows" if len(asked) == 1 else f"the services of {names} know"
    return UnknownName(f"{error.message}, and {who} no such job", hint=error.hint)


def find_all(
    session: Session, references: Sequence[str | None], *, target: str | None = None, acts: bool = False
) -> list[RunRow]:
    """The named runs in order, each once; UsageError when none is named. See `find`."""
    if not references:
        raise UsageError(
            "no run was named",
            hint="`gofer list runs` shows them; `last` is the newest one, and `--filter` chooses several",
        )
    rows = [find(session, reference, target=target, acts=acts) for reference in references]
    return list({row.id: row for row in rows}.values())


def find_matching(
    session: Session, filters: Sequence[Filter], *, target: str | None = None, acts: bool = False
) -> list[RunRow]:
    """The runs that match all filters, newest first, in the states that they have now.

    With `acts` the caller changes the runs. Then a filter that chooses rows of arrays chooses no array: what
    is done to an array is done to all its rows.
    """
    refresh_active(session)
    own = () if target is None else (Filter("target", "=", targets_meant(session, target)),)
    rows = session.ledger.select(Query(filters=(*filters, *own), records=True))
    only_rows = acts and any(one.chooses_rows for one in filters)
    return [row for row in rows if not (only_rows and row.kind == "group")]
