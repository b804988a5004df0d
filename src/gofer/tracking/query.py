"""Parses the filters of `list runs`, such as `state=failed` or a day, an order and a limit, into a Query.

This module reads and checks words. `sql` turns a Query into a statement with bound values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from gofer.core.states import Reason, State
from gofer.errors import UnknownName, UsageError
from gofer.text import did_you_mean, parse_duration_s, parse_time

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_STEPS_S = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d"), 60.0),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"), 1.0),
)
_DAYS_BACK = {"today": 0, "yesterday": 1}

# How the values of a field are read and compared.
FIELDS = {
    "id": "id",
    "name": "text",
    "target": "text",
    "state": "state",
    "reason": "reason",
    "exit_code": "number",
    "gpus": "number",
    "nodes": "number",
    "procs": "number",
    "priority": "number",
    "command": "text",
    "age": "duration",
    "elapsed": "duration",
    "submitted": "time",
    "started": "time",
    "ended": "time",
    "group": "id",
    "attempts": "number",
    "snapshot": "text",
    "row": "number",
}
NONE = "none"
_KEYED = {"tag.": "loose", "arg.": "loose"}
# Patterns are strings and compiled where they are used, because a listing without filters needs none of them.
_SYNTAX = r"(?s)\s*([^=!<>~]*[^=!<>~\s])\s*(==|!=|<>|<=|>=|=|<|>|~)(.*)"
_SAME_AS = {"==": "=", "<>": "!="}
_COMMA = r"(?<!\\),"
_NUMBER = r"(?a)\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*"


def moment(text: str, now: float) -> tuple[float, float]:
    """The first instant of the interval, and the first one after it; UsageError when the text is not a time.

    `today`, `yesterday` and `2026-03-01` are days in this machine's time zone, which may have 23, 24 or 25
    hours. A time with a zone or a fraction of a second is a single instant.
    """
    value = text.strip()
    if value in _DAYS_BACK:
        value = (datetime.fromtimestamp(now).date() - timedelta(days=_DAYS_BACK[value])).isoformat()
    start = parse_time(value)
    if _DAY.fullmatch(value):
        return start, _next_day(value)
    for form, step_s in _STEPS_S:
        if form.fullmatch(value):
            return start, start + step_s
    return start, math.nextafter(start, math.inf)


def _next_day(day: str) -> float:
    """The first instant after a day; infinity after the last day that a date can represent."""
    try:
        return parse_time((date.fromisoformat(day) + timedelta(days=1)).isoformat())
    except OverflowError:
        return math.inf


class Filter(NamedTuple):
    """One condition. `=` means one of the values, `!=` none of them; the other operators take one value."""

    field: str
    op: str
    values: tuple[str, ...]

    @property
    def chooses_rows(self) -> bool:
        """Whether the condition is about rows of arrays, which other filters leave out."""
        return self.field == "group" or self.field.startswith("arg.")


class Query(NamedTuple):
    """Runs that meet every filter.

    `limit` keeps this many of the newest runs. `sort` then orders them (default: newest first), with runs
    without a value last; `reverse` reverses the order. Rows of arrays are left out, unless `include_rows` is
    set or a filter names `group` or an `arg.`. `now` is the time for `age` and `elapsed`; None is the
    present. `records` asks for the run records too.
    """

    filters: tuple[Filter, ...] = ()
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None
    include_rows: bool = False
    kinds: tuple[str, ...] = ("run", "group")
    records: bool = False
    now: float | None = None


def parse_filter(text: str) -> Filter:
    """Parse `field op value`; UsageError or UnknownName when it is not a valid filter."""
    match = re.fullmatch(_SYNTAX, text)
    if not match:
        raise UsageError(
            f"`{text}` is not a filter",
            hint="write FIELD OPERATOR VALUE, like `state=failed`, `gpus>=4` or `age<7d`",
        )
    field, op, value = match.group(1), _SAME_AS.get(match.group(2), match.group(2)), match.group(3).strip()
    kind = field_kind(field)
    if op in ("=", "!="):
        # `\,` is a comma within a value.
        found = Filter(field, op, tuple(part.strip().replace("\\,", ",") for part in re.split(_COMMA, value)))
    else:
        found = Filter(field, op, (value,))
    _check(found, kind)
    return found


def parse_filters(texts: Sequence[str]) -> tuple[Filter, ...]:
    """The filters, all of which must hold."""
    return tuple(parse_filter(text) for text in texts)


def field_kind(field: str) -> str:
    """How the field's values compare; UnknownName, with the nearest name, when there is no such field."""
    for prefix, kind in _KEYED.items():
        if field.startswith(prefix) and len(field) > len(prefix):
            return kind
    if field not in FIELDS:
        known = [*FIELDS, *(f"{prefix}NAME" for prefix in _KEYED)]
        hint = did_you_mean(field, known) or "the fields are " + ", ".join(known)
        raise UnknownName(f"runs have no field `{field}`", hint=hint)
    return FIELDS[field]


def is_number(text: str) -> bool:
    """Whether SQLite reads the whole text as a number."""
    return re.fullmatch(_NUMBER, text) is not None


def _check(found: Filter, kind: str) -> None:
    if found.op == "~":
        _check_pattern(found, kind)
        return
    for value in found.values:
        if value == NONE and found.op in ("=", "!="):
            continue
        if value == NONE or (kind == "number" and not is_number(value)):
            raise UsageError(
                f"`{found.field}` cannot be compared with `{value}` by `{found.op}`", hint=_hint(kind)
            )
        if kind in ("state", "reason"):
            _check_word(kind, value)
        elif kind in ("duration", "time"):
            _check_when(kind, value)


def _check_pattern(found: Filter, kind: str) -> None:
    if kind in ("number", "duration", "time"):
        raise UsageError(f"`{found.field}` is not text, so `~` does not apply to it", hint=_hint(kind))
    try:
        re.compile(found.values[0])
    except (re.error, RecursionError, OverflowError) as error:
        text = found.values[0]
        shown = text if len(text) < 100 else f"{text[:100]}…"
        raise UsageError(
            f"`{shown}` is not a regular expression: {error}",
            hint="put a backslash before ( ) [ * + ?",
        ) from None


def _check_word(kind: str, value: str) -> None:
    known = [str(word) for word in (State if kind == "state" else Reason)]
    if value not in known:
        hint = did_you_mean(value, known) or f"the words are {', '.join(known)}"
        raise UnknownName(f"no run has the {kind} `{value}`", hint=hint)


def _check_when(kind: str, value: str) -> None:
    if kind == "duration":
        parse_duration_s(value)
    else:
        moment(value, 0.0)


def _hint(kind: str) -> str:
    return {
        "number": "compare it with a number: `=`, `!=`, `<`, `<=`, `>`, `>=`",
        "duration": "compare it with a duration like `90s`, `30m` or `7d`",
        "time": "compare it with a time like `today` or `2026-03-01 14:05`",
    }.get(kind, "use `=none` for runs without a value, `!=none` for those with one")
