"""Random runs, random filters: SQLite must choose what a plain reading of the rules chooses."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.tracking.build import NOW, run

from gofer.core.states import Reason, State
from gofer.text import parse_duration_s, quote_command
from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Filter, Query, parse_filter
from gofer.tracking.rows import RunRow

NUMBER = re.compile(r"[ \t\n\r\f\v]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\n\r\f\v]*", re.ASCII)
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMERIC = ("exit_code", "gpus", "nodes", "priority", "attempts")
DURATIONS = ("age", "elapsed")
TEXTS = ("name", "target", "state", "reason", "command", "snapshot", "id", "group")
PATTERNS = ("a", "^a", "1$", "train", "[0-9]+", ".", "^$", "x|b", "é", "'")

words = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "b",
            "10",
            "9",
            "9.0",
            "09",
            " 9",
            "1e1",
            "-3",
            "+.5",
            "0x1",
            "1_0",
            "inf",
            "nan",
            "é",
            "none",
            "'",
        ]
    ),
    st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4),
    st.integers(-20, 20).map(str),
    st.floats(-20, 20).map(lambda value: f"{value:.3f}"),
)
instants = st.none() | st.integers(0, 50).map(lambda seconds: NOW + seconds)


@st.composite
def rows(draw: st.DrawFn) -> list[RunRow]:
    found = []
    for i in range(draw(st.integers(0, 8))):
        row = run(
            f"r261116-091233-{i:06}",
            name=draw(words),
            target=draw(words),
            state=str(draw(st.sampled_from(list(State)))),
            reason=draw(st.none() | st.sampled_from([str(reason) for reason in Reason])),
            exit_code=draw(st.none() | st.integers(-3, 3)),
            command=draw(st.lists(words, max_size=3)),
            gpus=draw(st.integers(0, 10)),
            priority=draw(st.integers(-3, 3)),
            submitted_at=NOW + draw(st.integers(0, 50)),
            started_at=draw(instants),
            ended_at=draw(instants),
            elapsed_s=draw(st.none() | st.integers(0, 50).map(float)),
            attempts=[{"number": n, "state": "failed"} for n in range(draw(st.integers(0, 3)))],
            snapshot=draw(st.none() | words),
            tags=draw(st.dictionaries(st.sampled_from(["k", "é", 'q"']), words, max_size=2)),
            args=draw(st.dictionaries(st.just("k"), words, max_size=1)),
            group_id=draw(st.none() | st.just("r261116-091233-gggggg")),
            record=b"",
        )
        found.append(row._replace(row_index=i if row.group_id else None))
    return found


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    kind = draw(st.sampled_from(["number", "duration", "text", "keyed"]))
    comparison = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    if kind == "number":
        numbers = st.integers(-4, 11).map(str) | st.sampled_from(["0.5", "1e0", "-2.0"])
        return _with_values(draw, draw(st.sampled_from(NUMERIC)), draw(comparison), numbers)
    if kind == "duration":
        return _with_values(
            draw, draw(st.sampled_from(DURATIONS)), draw(comparison), st.integers(0, 60).map(str)
        )
    field = draw(st.sampled_from(TEXTS if kind == "text" else ("tag.k", "tag.é", 'tag.q"', "arg.k")))
    op = draw(comparison | st.just("~"))
    if op == "~":
        return Filter(field, op, (draw(st.sampled_from(PATTERNS)),))
    if field in ("state", "reason"):
        return _with_values(
            draw, field, op, st.sampled_from([str(w) for w in (State if field == "state" else Reason)])
        )
    if field in ("id", "group"):
        return _with_values(
            draw, field, op, st.sampled_from(["r261116-091233-000001", "000002", "gggggg", "x"])
        )
    return _with_values(draw, field, op, words)


def _with_values(draw: st.DrawFn, field: str, op: str, values: st.SearchStrategy[str]) -> Filter:
    if op in ("=", "!="):
        return Filter(field, op, tuple(draw(st.lists(values | st.just("none"), min_size=1, max_size=3))))
    return Filter(field, op, (draw(values.filter(lambda value: value != "none")),))


def value_of(row: RunRow, field: str, now: float) -> Any:
    if field.startswith("tag."):
        return row.tags.get(field[4:])
    if field.startswith("arg."):
        return row.args.get(field[4:])
    if field == "elapsed":
        if row.elapsed_s is not None:
            return row.elapsed_s
        if row.started_at is None:
            return None
        return (now if row.ended_at is None else row.ended_at) - row.started_at
    special: dict[str, Callable[[], Any]] = {
        "command": lambda: quote_command(row.command),
        "group": lambda: row.group_id,
        "attempts": lambda: len(row.attempts),
        "age": lambda: now - row.submitted_at,
    }
    return special[field]() if field in special else getattr(row, field)


def equal(field: str, value: Any, text: str) -> bool:
    if text == "none" or value is None:
        return text == "none" and value is None
    if field in NUMERIC:
        return bool(value == float(text))
    if field in DURATIONS:
        return bool(value == parse_duration_s(text))
    if field in ("id", "group"):
        return text in (value, value.split("-", 2)[2])
    if "." in field and NUMBER.fullmatch(text) and NUMBER.fullmatch(value):
        return float(text) == float(value)
    return bool(value == text)


def ordered(field: str, op: str, value: Any, text: str) -> bool:
    if field in NUMERIC:
        return ORDER[op](value, float(text))
    if field in DURATIONS:
        return ORDER[op](value, parse_duration_s(text))
    if "." in field and NUMBER.fullmatch(text):
        return NUMBER.fullmatch(value) is not None and ORDER[op](float(value), float(text))
    return ORDER[op](value.encode(), text.encode())


def holds(row: RunRow, condition: Filter, now: float) -> bool:
    value = value_of(row, condition.field, now)
    if condition.op == "=":
        return any(equal(condition.field, value, text) for text in condition.values)
    if condition.op == "!=":
        return not any(equal(condition.field, value, text) for text in condition.values)
    if value is None:
        return False
    if condition.op == "~":
        return re.search(condition.values[0], value) is not None
    return ordered(condition.field, condition.op, value, condition.values[0])


@settings(max_examples=200, deadline=None)
@given(rows=rows(), conditions=st.lists(filters(), max_size=3))
def test_the_ledger_agrees_with_the_rules(
    tmp_path_factory: Any, rows: list[RunRow], conditions: list[Filter]
) -> None:
    with opened(tmp_path_factory) as ledger:
        ledger.replace_all(rows)
        query = Query(filters=tuple(conditions), include_rows=True, now=NOW + 60)
        found = {row.id for row in ledger.select(query)}
        assert found == {row.id for row in rows if all(holds(row, c, NOW + 60) for c in conditions)}
        assert ledger.count(query) == len(found)


@given(condition=filters())
def test_a_filter_written_down_reads_back(condition: Filter) -> None:
    """Spaces at the ends are lost by design, so values with them are left out."""
    if any(value != value.strip() for value in condition.values):
        return
    values = (
        condition.values
        if condition.op not in ("=", "!=")
        else [v.replace(",", "\\,") for v in condition.values]
    )
    if any("\\\\," in value for value in values):
        return
    assert parse_filter(f"{condition.field} {condition.op} {','.join(values)}") == condition
    if not values[0].startswith(("=", ">")):  # these would become part of the operator
        assert parse_filter(f"{condition.field}{condition.op}{','.join(values)}") == condition


def opened(tmp_path_factory: Any) -> Ledger:
    folder: Path = tmp_path_factory.getbasetemp() / "oracle"
    return Ledger.open(folder / "ledger.db")
