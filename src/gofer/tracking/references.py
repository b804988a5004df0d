"""Finds the runs that a person means: by an id, a part of one, a name, `last`, or a log folder."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import NamedTuple

from gofer.errors import UnknownName, UsageError
from gofer.text import format_duration, quote_command
from gofer.tracking.rows import DamagedLine, RunRow, plain, short_id_of

LAST = "last"
MOST_SHOWN = 10
_COMMAND_WIDTH = 60
# The largest OFFSET that SQLite accepts.
_MOST_BACK = 2**63 - 1

# How a run matches a word. Only the runs of the best kind of match are meant.
_ID, _NAME, _PART, _BEGINNING = 0, 1, 2, 3
_SHORT_ID = short_id_of("id")
# substr instead of LIKE, in which `_` and `%` of an id would be wildcards.
_KIND_OF_MATCH = f"""
    CASE WHEN {_SHORT_ID} = :word THEN {_ID}
         WHEN name = :word THEN {_NAME}
         WHEN substr({_SHORT_ID}, 1, :length) = :word OR substr(id, -:length) = :word THEN {_PART}
         WHEN substr(id, 1, :length) = :word THEN {_BEGINNING} END
"""


class Matches(NamedTuple):
    """The ids of the runs that a reference may mean, newest first; `by_name` when it is their name."""

    ids: list[str]
    by_name: bool = False


def tidy(reference: str) -> str:
    """The id in the reference, also from `assets/<id>/` as a shell completes it; UsageError when empty."""
    word = (plain(reference) or "").strip().rstrip("/").rpartition("/")[2]
    if not word:
        raise UsageError(
            f"`{reference}` names no run", hint="`gofer list runs` shows the runs; `last` is the newest"
        )
    return word


def steps_back(word: str) -> int | None:
    """0 for `last`, N for `last~N`, the N-th run before it; None for any other word."""
    head, tilde, number = word.partition("~")
    if head != LAST:
        return None
    if not tilde:
        return 0
    is_number = number.isascii() and number.isdigit()
    return min(int(number[:20]), _MOST_BACK) if is_number else None


def matches(
    connection: sqlite3.Connection, word: str, *, targets: Sequence[str] = (), project: str | None = None
) -> Matches:
    """The runs that `word` may mean, among those of any of the targets, if there are some, and of a project.

    An exact id counts first, then a name, then the beginning or the end of a short id, then the beginning of
    an id. Rows of arrays match only their full id or `<group>-<i>`, so that the id of a group is never
    ambiguous with its rows.
    """
    back = steps_back(word)
    if back is not None:
        return Matches(newest(connection, project=project, targets=targets, most=1, after=back))
    exact = _select(connection, "SELECT id, 0 FROM runs WHERE id = :word", word, targets, project)
    if exact:
        return Matches([run_id for run_id, _ in exact])
    found = _matching(connection, word, targets, project) + _rows(connection, word, targets, project)
    best = min((kind for _, kind in found), default=_PART)
    return Matches([run_id for run_id, kind in found if kind == best], by_name=best == _NAME)


def newest(
    connection: sqlite3.Connection,
    *,
    project: str | None = None,
    targets: Sequence[str] = (),
    most: int,
    after: int = 0,
) -> list[str]:
    """The ids of the newest runs and groups of a project, or of all projects, newest first, without the
    first `after` of them.
    """
    sql = "SELECT id, 0 FROM runs WHERE group_id IS NULL"
    return [run_id for run_id, _ in _select(connection, sql, "", targets, project, most=most, after=after)]


def unknown(reference: str, targets: Sequence[str]) -> UnknownName:
    """The error for a reference that matches no run."""
    names = ", ".join(f"`{name}`" for name in targets)
    where = f" on the target{'s' * (len(targets) > 1)} {names}" if targets else ""
    back = steps_back(reference)
    if back:
        return UnknownName(
            f"there are not as many as {back + 1} runs{where}", hint="`gofer list runs` shows them"
        )
    if back is not None:
        return UnknownName(f"no run has been submitted yet{where}", hint="`gofer submit COMMAND`")
    return UnknownName(f"no run has the id or the name `{reference}`{where}", hint="`gofer list runs`")


def ambiguous(reference: str, rows: list[RunRow], found: Matches) -> UsageError:
    """The error for a reference that matches several runs; `rows` are the first of them."""
    lines = [candidate(row) for row in rows]
    if len(found.ids) > len(rows):
        lines.append(f"  and {len(found.ids) - len(rows)} more")
    first = f"`{reference}` {'is the name of' if found.by_name else 'fits'} {len(found.ids)} runs:"
    hint = "name one of them by its id" if found.by_name else "give more of the id, or all of it"
    return UsageError("\n".join([first, *lines]), hint=hint)


def candidate(row: RunRow) -> str:
    """A line about a run that a reference may mean."""
    age = format_duration(max(time.time() - row.submitted_at, 0.0))
    return f"  {row.short_id}  {row.state}  {age} ago  {quote_command(row.command)[:_COMMAND_WIDTH]}"


def _matching(
    connection: sqlite3.Connection, word: str, targets: Sequence[str], project: str | None, *, only: str = "1"
) -> list[tuple[str, int]]:
    """(id, how it matches) of the runs and groups that match, newest first; `only` is a condition in SQL."""
    sql = f"""SELECT id, how FROM (SELECT *, {_KIND_OF_MATCH} AS how FROM runs WHERE group_id IS NULL)
        WHERE how IS NOT NULL AND {only}"""
    return _select(connection, sql, word, targets, project)


def _rows(
    connection: sqlite3.Connection, word: str, targets: Sequence[str], project: str | None
) -> list[tuple[str, int]]:
    """The rows that `<group>-<i>` names, where the group is named in any way but by the beginning of its
    whole id.
    """
    group, dash, index = word.rpartition("-")
    if not (dash and group and index.isascii() and index.isdigit()):
        return []
    groups = _matching(connection, group, targets, project, only="kind = 'group'")
    return [
        (run_id, kind)
        for group_id, kind in groups
        if kind != _BEGINNING
        for run_id, _ in _select(
            connection, "SELECT id, 0 FROM runs WHERE id = :word", f"{group_id}-{index}", (), None
        )
    ]


def _select(
    connection: sqlite3.Connection,
    sql: str,
    word: str,
    targets: Sequence[str],
    project: str | None,
    *,
    most: int = -1,
    after: int = 0,
) -> list[tuple[str, int]]:
    """The lines of `sql`, narrowed to targets and a project, newest first."""
    names = {f"target{at}": plain(name) for at, name in enumerate(targets)}
    if names:
        sql += f" AND target IN ({', '.join(f':{name}' for name in names)})"
    if project is not None:
        sql += " AND project = :project"
    # LIMIT -1 means no limit in SQLite.
    sql += " ORDER BY submitted_at DESC, id DESC LIMIT :most OFFSET :after"
    values = {
        "word": word,
        "length": len(word),
        **names,
        "project": plain(project),
        "most": most,
        "after": after,
    }
    found = connection.execute(sql, values).fetchall()
    if not all(isinstance(run_id, str) for run_id, _ in found):
        raise DamagedLine("an id is not text")
    return found
