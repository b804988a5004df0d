"""Finds the run that a person means: by an id, a part of one, `last`, or the name of a log folder."""

from __future__ import annotations

import sqlite3

from gofer.errors import UnknownName, UsageError
from gofer.text import quote_command
from gofer.tracking.rows import DamagedLine, RunRow, plain

LAST = "last"
MOST_SHOWN = 10
_COMMAND_WIDTH = 60


def tidy(reference: str) -> str:
    """The id in the reference, also from `assets/<id>/` as a shell completes it; UsageError when empty."""
    word = (plain(reference) or "").strip().rstrip("/").rpartition("/")[2]
    if not word:
        raise UsageError(
            f"`{reference}` names no run", hint="`gofer list runs` shows the runs; `last` is the newest"
        )
    return word


def candidates(connection: sqlite3.Connection, word: str, target: str | None) -> list[str]:
    """The ids that `word` may mean, newest first: an exact id alone, otherwise by beginning or end.

    Rows of arrays match only their full id or `<end of the group's id>-<i>`, so that the id of a group is
    never ambiguous with its rows.
    """
    if word == LAST:
        return newest(connection, target=target, most=1)
    exact = _ids(connection, "id = ?", [word], target)
    if exact:
        return exact
    found = _ids(
        connection,
        # substr instead of LIKE, in which `_` and `%` of an id would be wildcards.
        "group_id IS NULL AND (substr(id, 1, ?) = ? OR substr(id, -?) = ?)",
        [len(word), word, len(word), word],
        target,
    )
    return found + _rows(connection, word, target)


def newest(
    connection: sqlite3.Connection, *, project: str | None = None, target: str | None = None, most: int
) -> list[str]:
    """The ids of the newest runs and groups of a project, or of all projects, newest first."""
    where, values = "group_id IS NULL", list[str | int]()
    if project is not None:
        where, values = f"{where} AND project = ?", [plain(project) or ""]
    return _ids(connection, where, values, target, most=most)


def unknown(reference: str, target: str | None) -> UnknownName:
    """The error for a reference that matches no run."""
    if reference == LAST:
        return UnknownName("no run has been submitted yet", hint="`gofer submit COMMAND`")
    where = f" on the target `{target}`" if target else ""
    return UnknownName(
        f"no run has an id that begins or ends with `{reference}`{where}", hint="`gofer list runs`"
    )


def ambiguous(reference: str, rows: list[RunRow], total: int) -> UsageError:
    """The error for a reference that matches several runs; `rows` are the first of them."""
    lines = [f"  {row.id}  {row.state}  {quote_command(row.command)[:_COMMAND_WIDTH]}" for row in rows]
    if total > len(rows):
        lines.append(f"  and {total - len(rows)} more")
    return UsageError(
        "\n".join([f"`{reference}` fits {total} runs:", *lines]), hint="give more of the id, or all of it"
    )


def _rows(connection: sqlite3.Connection, word: str, target: str | None) -> list[str]:
    end, dash, index = word.rpartition("-")
    if not (dash and end and index.isascii() and index.isdigit()):
        return []
    groups = _ids(connection, "kind = 'group' AND substr(id, -?) = ?", [len(end), end], target)
    found = (_ids(connection, "id = ?", [f"{group}-{index}"], target) for group in groups)
    return [run_id for ids in found for run_id in ids]


def _ids(
    connection: sqlite3.Connection,
    where: str,
    values: list[str | int],
    target: str | None,
    *,
    most: int = -1,
) -> list[str]:
    sql = f"SELECT id FROM runs WHERE {where}"
    if target is not None:
        sql, values = f"{sql} AND target = ?", [*values, plain(target) or ""]
    # LIMIT -1 means no limit in SQLite.
    sql = f"{sql} ORDER BY submitted_at DESC, id DESC LIMIT ?"
    found = [row[0] for row in connection.execute(sql, [*values, most])]
    if not all(isinstance(run_id, str) for run_id in found):
        raise DamagedLine("an id is not text")
    return found
