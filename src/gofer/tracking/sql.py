"""Turns a Query into one statement with bound values; no text of the user becomes SQL."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gofer.text import parse_duration_s, quote_command
from gofer.tracking.query import NONE, Filter, Query, field_kind, is_number, moment
from gofer.tracking.rows import SELECT_BARE, SELECT_FULL, marks, plain, short_id_of

# Functions of ours that a statement may use: see `command_text` and `pattern_function`.
COMMAND_FUNCTION = "gofer_command"
PATTERN_FUNCTION = "gofer_matches"

_COLUMNS = {
    "command": f"{COMMAND_FUNCTION}(command)",
    "group": "group_id",
    "submitted": "submitted_at",
    "started": "started_at",
    "ended": "ended_at",
    "attempts": "json_array_length(attempts)",
    "row": "row_index",
}
_NUMBER = "CAST(? AS NUMERIC)"
_IS_NUMBER = "{} <= CAST('9e999' AS REAL)"  # against a number SQLite sorts every text that is not one higher
# The largest LIMIT that SQLite accepts.
_MOST_LINES = 2**63 - 1
# The order of the index runs_by_time. With rows, each group is followed by its rows, from the first.
_NEWEST = "submitted_at DESC, id DESC"
_NEWEST_WITH_ROWS = "submitted_at DESC, coalesce(group_id, id) DESC, row_index"
_OLDEST = "submitted_at, id"
_OLDEST_WITH_ROWS = "submitted_at, coalesce(group_id, id), row_index"


class SqlPart(NamedTuple):
    """A piece of SQL, and the values for its question marks, in order."""

    sql: str
    values: tuple[Any, ...] = ()


class Statement(NamedTuple):
    """What to execute. COMMAND_FUNCTION and PATTERN_FUNCTION must be registered on the connection before, if
    the statement has them.
    """

    sql: str
    values: tuple[Any, ...]

    @property
    def has_commands(self) -> bool:
        return COMMAND_FUNCTION in self.sql

    @property
    def has_patterns(self) -> bool:
        return PATTERN_FUNCTION in self.sql


def compile_select(query: Query) -> Statement:
    """The statement whose lines `rows.decode` reads. Pure."""
    return _compile(query, SELECT_FULL if query.records else SELECT_BARE)


def compile_ids(query: Query) -> Statement:
    """The statement for the ids of what `compile_select` selects, in the same order. Pure."""
    return _compile(query, "SELECT id FROM runs")


def _compile(query: Query, select: str) -> Statement:
    where = _where(query)
    newest = _NEWEST_WITH_ROWS if _has_rows(query) else _NEWEST
    tail = f"WHERE {where.sql} ORDER BY {newest} LIMIT ?"
    limit = -1 if query.limit is None else min(query.limit, _MOST_LINES)
    if query.sort is None and not query.reverse:
        return _statement(SqlPart(f"{select} {tail}", (*where.values, limit)))
    order = _order(query, newest)
    # The inner statement keeps the newest runs, the outer one orders them.
    inner = f"(SELECT * FROM runs {tail}) AS runs"
    sql = f"{select.removesuffix('runs')}{inner} ORDER BY {order.sql}"
    return _statement(SqlPart(sql, (*where.values, limit, *order.values)))


def compile_count(query: Query) -> Statement:
    """The statement for the number of runs that match, without the limit. Pure."""
    where = _where(query)
    return _statement(SqlPart(f"SELECT count(*) FROM runs WHERE {where.sql}", where.values))


def _statement(part: SqlPart) -> Statement:
    return Statement(part.sql, part.values)


def _has_rows(query: Query) -> bool:
    return query.include_rows or any(one.chooses_rows for one in query.filters)


def _where(query: Query) -> SqlPart:
    now = time.time() if query.now is None else query.now
    parts = [] if _has_rows(query) else [SqlPart("group_id IS NULL")]
    if set(query.kinds) != {"run", "group"}:
        parts.append(SqlPart(f"kind IN ({marks(query.kinds)})", query.kinds))
    parts += [_condition(condition, now) for condition in query.filters]
    return _join(" AND ", parts) if parts else SqlPart("1")


def _join(word: str, parts: list[SqlPart]) -> SqlPart:
    return SqlPart(
        word.join(f"({part.sql})" for part in parts), tuple(v for part in parts for v in part.values)
    )


def _condition(condition: Filter, now: float) -> SqlPart:
    """A condition. `!=` is the exact opposite of `=`, so it holds for runs without a value; no other does."""
    if condition.op == "!=":
        part = _condition(condition._replace(op="="), now)
        # IS NOT TRUE is also true for NULL, unlike NOT.
        return SqlPart(f"({part.sql}) IS NOT TRUE", part.values)
    return _join(" OR ", [_compare(condition.field, condition.op, value, now) for value in condition.values])


def _compare(field: str, op: str, value: str, now: float) -> SqlPart:
    kind = field_kind(field)
    if kind == "loose":
        return _compare_keyed(field, op, value)
    expression = _expression(field, now)
    if op == "=" and value == NONE:
        return SqlPart(f"{expression.sql} IS NULL", expression.values)
    if kind == "time":
        return _compare_time(expression, op, value, now)
    right = _right(kind, op, value)
    if op == "~":
        return SqlPart(
            f"{PATTERN_FUNCTION}({right.sql}, CAST({expression.sql} AS BLOB))",
            right.values + expression.values,
        )
    compared = SqlPart(f"{expression.sql} {op} {right.sql}", expression.values + right.values)
    if kind == "id" and op == "=":
        short = SqlPart(f"{short_id_of(expression.sql)} = ?", right.values)
        return _join(" OR ", [compared, short])
    return compared


def _right(kind: str, op: str, value: str) -> SqlPart:
    if kind == "duration" and op != "~":
        return SqlPart("?", (parse_duration_s(value),))
    return SqlPart(_NUMBER if kind == "number" else "?", (plain(value),))


def _compare_time(expression: SqlPart, op: str, value: str, now: float) -> SqlPart:
    """A comparison with a day or minute, which is an interval: `=` is inside of it, `>` after its end."""
    start, end = moment(value, now)
    if op == "=":
        return SqlPart(f"{expression.sql} >= ? AND {expression.sql} < ?", (start, end))
    edge = {"<": ("<", start), "<=": ("<", end), ">": (">=", end), ">=": (">=", start)}[op]
    return SqlPart(f"{expression.sql} {edge[0]} ?", (edge[1],))


def _compare_keyed(field: str, op: str, value: str) -> SqlPart:
    """A comparison of tags and array values. They are text, but compare as numbers when both are numbers."""
    source, key = _keyed(field)
    inside = f"SELECT 1 FROM json_each({source}) WHERE key = ?"
    if op == "=" and value == NONE:
        return SqlPart(f"NOT EXISTS ({inside})", (key,))
    if op == "~":
        test = SqlPart(f"{PATTERN_FUNCTION}(?, CAST(value AS BLOB))", (plain(value),))
    elif is_number(value):
        test = SqlPart(f"value {op} {_NUMBER} AND {_IS_NUMBER.format('value')}", (value,))
    else:
        test = SqlPart(f"value {op} ?", (plain(value),))
    return SqlPart(f"EXISTS ({inside} AND {test.sql})", (key, *test.values))


def _keyed(field: str) -> tuple[str, str | None]:
    prefix, _, key = field.partition(".")
    return {"tag": "tags", "arg": "args"}[prefix], plain(key)


def _expression(field: str, now: float) -> SqlPart:
    if field == "age":
        return SqlPart("(? - submitted_at)", (now,))
    if field == "elapsed":
        return SqlPart("coalesce(elapsed_s, ended_at - started_at, ? - started_at)", (now,))
    return SqlPart(_COLUMNS.get(field, field))


def _order(query: Query, newest: str) -> SqlPart:
    down = "DESC" if query.reverse else "ASC"
    if query.sort is None:
        return SqlPart(_OLDEST_WITH_ROWS if _has_rows(query) else _OLDEST)
    now = time.time() if query.now is None else query.now
    if field_kind(query.sort) != "loose":
        value = _expression(query.sort, now)
        return SqlPart(f"{value.sql} IS NULL, {value.sql} {down}, {newest}", value.values * 2)
    source, key = _keyed(query.sort)
    value = SqlPart(f"(SELECT value FROM json_each({source}) WHERE key = ?)", (key,))
    number = _IS_NUMBER.format(value.sql)
    keys = [f"{value.sql} IS NULL", f"{number} {'ASC' if query.reverse else 'DESC'}"]
    keys += [f"CASE WHEN {number} THEN CAST({value.sql} AS REAL) END {down}", f"{value.sql} {down}", newest]
    return SqlPart(", ".join(keys), value.values * 5)


def command_text(text: str) -> str:
    """COMMAND_FUNCTION: the words of a command as a person types them."""
    return plain(quote_command(json.loads(text))) or ""


def pattern_function(search: Callable[[str, str], bool]) -> Callable[[str, bytes | None], bool]:
    """PATTERN_FUNCTION: whether `search` finds a pattern in a value. sqlite3 passes only UTF-8 as text, so
    the value is bytes.
    """

    def matches(pattern: str, value: bytes | None) -> bool:
        return value is not None and search(pattern, value.decode("utf-8", "surrogatepass"))

    return matches
