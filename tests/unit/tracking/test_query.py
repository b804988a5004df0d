"""Words to filters, and filters to the right runs: the examples of docs/filters.md and the errors."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from unit.tracking.build import NOW, group, run

from gofer.errors import UnknownName, UsageError
from gofer.tracking.ledger import Ledger
from gofer.tracking.query import FIELDS, Filter, Query, moment, parse_filter, parse_filters

A, B, C = (f"r261116-091233-{letter * 6}" for letter in "bcd")
GROUP = "r261116-091233-gggggg"
DOCS = Path(__file__).parents[3] / "docs" / "filters.md"


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    ledger.insert(
        [
            run(
                A, gpus=4, state="failed", reason="exit-code", exit_code=1, tags={"lr": "0.10", "note": "a,b"}
            ),
            run(B, gpus=8, state="running", submitted_at=NOW + 1, started_at=NOW + 2, tags={"lr": "fast"}),
            run(
                C,
                name="eval",
                state="succeeded",
                exit_code=0,
                submitted_at=NOW + 2,
                target="lab",
                elapsed_s=7.0,
            ),
            *group(GROUP, 12, submitted_at=NOW - 1),
        ]
    )
    return ledger


def ids(ledger: Ledger, *filters: str, **values: Any) -> list[str]:
    query = Query(filters=parse_filters(filters), now=NOW + 100)._replace(**values)
    found = [row.id for row in ledger.select(query)]
    assert [row.id for row in ledger.selection(query)] == found
    if query.limit is None:
        assert ledger.count(query) == len(found)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("state=failed", Filter("state", "=", ("failed",))),
        (" state == failed , lost ", Filter("state", "=", ("failed", "lost"))),
        ("gpus<>4", Filter("gpus", "!=", ("4",))),
        ("gpus>=4", Filter("gpus", ">=", ("4",))),
        ("tag.a b=c=d", Filter("tag.a b", "=", ("c=d",))),
        ("tag.done=", Filter("tag.done", "=", ("",))),
        (r"tag.note=a\,b", Filter("tag.note", "=", ("a,b",))),
        ("command~a,b|c$", Filter("command", "~", ("a,b|c$",))),
        ("name=one\ntwo", Filter("name", "=", ("one\ntwo",))),
    ],
)
def test_words_become_a_filter(text: str, expected: Filter) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize("text", ["", "=", "failed", "=failed", "state", "state!failed", "~x"])
def test_what_is_not_a_filter(text: str) -> None:
    with pytest.raises(UsageError, match="is not a filter") as caught:
        parse_filter(text)
    assert "state=failed" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("sate=failed", "no field `sate`", "did you mean `state`?"),
        ("tag.=1", "no field `tag.`", "did you mean `tag.NAME`?"),
        ("zzz=1", "no field `zzz`", "tag.NAME"),
        ("state=runing", "no run has the state `runing`", "did you mean `running`?"),
        ("state=zzz", "no run has the state `zzz`", "pending, queued"),
        ("state!=failed,whatever", "no run has the state `whatever`", "pending, queued"),
        ("reason=oom", "no run has the reason `oom`", "the words are user, exit-code"),
        ("gpus=many", "`gpus` cannot be compared with `many`", "number"),
        ("gpus>=1,2", "`gpus` cannot be compared with `1,2`", "number"),
        ("gpus<none", "`gpus` cannot be compared with `none`", "number"),
        ("name>none", "`name` cannot be compared with `none`", "=none"),
        ("gpus~4", "`gpus` is not text", "number"),
        ("age~4", "`age` is not text", "duration"),
        ("age<soon", "`soon` is not a duration", "90s"),
        ("submitted>soon", "`soon` is not a time", "2026-03-01"),
        ("name~(", "not a regular expression", "backslash"),
    ],
)
def test_filters_that_cannot_mean_anything(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        parse_filter(text)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("", [C, B, A, GROUP]),
        ("state=failed", [A]),
        ("state=failed,running", [B, A]),
        ("state!=failed,running", [C, GROUP]),
        ("exit_code=none", [B, GROUP]),
        ("exit_code!=0", [B, A, GROUP]),
        ("exit_code!=0 exit_code!=none", [A]),
        ("exit_code<1", [C]),
        ("gpus>=4", [B, A]),
        ("gpus>=4.5", [B]),
        ("tag.lr=0.1", [A]),
        ("tag.lr=1e-1", [A]),
        ("tag.lr>0.01", [A]),
        ("tag.lr=fast", [B]),
        ("tag.lr!=none", [B, A]),
        ("tag.lr=none", [C, GROUP]),
        (r"tag.note=a\,b", [A]),
        ("tag.lr~^f", [B]),
        ("command~train", [C, B, A, GROUP]),
        ("name~^ev target=lab", [C]),
        ("name>f", [B, A, GROUP]),
        (f"id={A}", [A]),
        ("id=bbbbbb", [A]),
        ("id~b$", [A]),
        ("age<99", [C]),
        ("age<=99s", [C, B]),
        ("age>1m40s", [GROUP]),
        ("elapsed=7", [C]),
        ("elapsed>90", [B]),
        ("started=none", [C, A, GROUP]),
        ("attempts=0", [C, B, A, GROUP]),
        ("snapshot=none", [C, B, A, GROUP]),
        ("arg.i>=10", [f"{GROUP}-10", f"{GROUP}-11"]),
        ("group=gggggg arg.i<2", [f"{GROUP}-0", f"{GROUP}-1"]),
        (f"group={GROUP} arg.i=3", [f"{GROUP}-3"]),
        ("group=none", [C, B, A, GROUP]),
    ],
)
def test_filters_find(filled: Ledger, filters: str, expected: list[str]) -> None:
    assert ids(filled, *filters.split()) == expected


def test_order_and_limit(filled: Ledger) -> None:
    assert ids(filled, limit=2) == [C, B]
    assert ids(filled, limit=2, reverse=True) == [B, C]
    assert ids(filled, sort="gpus") == [C, GROUP, A, B]
    assert ids(filled, sort="gpus", reverse=True) == [B, A, C, GROUP]
    assert ids(filled, sort="gpus", limit=2) == [C, B]
    assert ids(filled, sort="exit_code") == [C, A, B, GROUP]
    assert ids(filled, sort="exit_code", reverse=True) == [A, C, B, GROUP]
    assert ids(filled, sort="tag.lr") == [A, B, C, GROUP]
    assert ids(filled, sort="tag.lr", reverse=True) == [B, A, C, GROUP]
    assert ids(filled, sort="age") == [C, B, A, GROUP]
    assert ids(filled, sort="command", limit=0) == []
    with pytest.raises(UnknownName, match="no field `gpu`"):
        filled.select(Query(sort="gpu"))


def test_rows_stand_under_their_group(filled: Ledger) -> None:
    rows = [f"{GROUP}-{i}" for i in range(12)]
    assert ids(filled, include_rows=True) == [C, B, A, GROUP, *rows]
    assert ids(filled, include_rows=True, reverse=True) == [GROUP, *rows, A, B, C]
    assert ids(filled, include_rows=True, limit=5) == [C, B, A, GROUP, rows[0]]
    assert ids(filled, kinds=("group",)) == [GROUP]
    assert ids(filled, kinds=("run",)) == [C, B, A]


def test_numbers_sort_as_numbers_in_tags(ledger: Ledger) -> None:
    values = ["10", "9", "1e2", "-1", "x", "", "abc"]
    ledger.insert([run(f"r261116-091233-{i:06}", tags={"n": value}) for i, value in enumerate(values)])
    found = [row.tags["n"] for row in ledger.select(Query(sort="tag.n"))]
    assert found == ["-1", "9", "10", "1e2", "", "abc", "x"]
    found = [row.tags["n"] for row in ledger.select(Query(sort="tag.n", reverse=True))]
    assert found == ["x", "abc", "", "1e2", "10", "9", "-1"]


def test_what_is_typed_never_becomes_sql(filled: Ledger) -> None:
    for hostile in ("'); DROP TABLE runs; --", '"', "%", "_", "\\", "\udcff", "a\0b"):
        for field in ("name", "id", "command", "tag.x", "arg.x", f"tag.{hostile}", f"arg.{hostile}"):
            assert ids(filled, f"{field}={hostile}") == []
            filled.select(Query(sort=field))
            filled.select(Query(filters=(Filter(field, "~", (re.escape(hostile),)),)))
    assert filled.count(Query()) == 4


def test_tags_that_are_not_utf8_can_stand_beside_a_pattern(ledger: Ledger) -> None:
    ledger.insert([run(A, tags={"x": "\udcff-one"}, command=["\udcff"]), run(B, tags={"x": "two"})])
    assert ids(ledger, "tag.x~one|two") == [B, A]
    assert ids(ledger, "tag.x!=two") == [A]
    assert ids(ledger, "command~udcff") == [A]


@pytest.fixture
def zone() -> Iterator[None]:
    """A zone with summer time, so that days of 23 and 25 hours are met."""
    old = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if old is not None:
        os.environ["TZ"] = old
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_moments() -> None:
    now = datetime(2026, 3, 30, 12).timestamp()
    start, end = moment("yesterday", now)
    assert (start, end) == moment("2026-03-29", now)
    assert end - start == 23 * 3600  # the clocks went forward
    assert moment("today", now)[0] == end
    assert moment("2026-03-30 14:05", now) == (now + 7500, now + 7560)
    assert moment("2026-03-30T14:05:09", now) == (now + 7509, now + 7510)
    start, end = moment("2026-03-30T10:00:00Z", now)
    assert start == now < end < now + 1e-6


def test_times_are_intervals(ledger: Ledger) -> None:
    midnight = datetime(2026, 11, 16).timestamp()
    times = {A: midnight - 1, B: midnight, C: midnight + 3600}
    ledger.insert([run(run_id, submitted_at=at) for run_id, at in times.items()])
    now = midnight + 4000
    assert ids(ledger, "submitted=today", now=now) == [C, B]
    assert ids(ledger, "submitted!=today", now=now) == [A]
    assert ids(ledger, "submitted<today", now=now) == ids(ledger, "submitted=yesterday", now=now) == [A]
    assert ids(ledger, "submitted>=today", now=now) == [C, B]
    assert ids(ledger, "submitted>today", now=now) == []
    assert ids(ledger, "submitted>yesterday", now=now) == [C, B]
    assert ids(ledger, "submitted<=2026-11-16", now=now) == [C, B, A]
    assert ids(ledger, "submitted=2026-11-16 00:00", now=now) == [B]
    assert ids(ledger, "submitted>2026-11-16 00:00", now=now) == [C]


def test_listings_use_their_indexes(ledger: Ledger) -> None:
    """A plan that scans the table would be slow only once someone has many runs."""
    from gofer.tracking.sql import compile_select

    for query, index in (
        (Query(limit=20), "runs_by_time"),
        (Query(limit=20, filters=parse_filters(["state=failed"])), "runs_by_state"),
    ):
        statement = compile_select(query)
        plan = ledger._connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.values).fetchall()
        steps = [step[3] for step in plan]
        assert index in steps[0]
        assert not any("TEMP B-TREE" in step for step in steps)


def test_every_field_is_documented() -> None:
    documented = set(re.findall(r"^\| `([a-z_.A-Z]+)`", DOCS.read_text(), re.MULTILINE))
    assert documented == {*FIELDS, "tag.NAME", "arg.NAME"}


def test_the_filters_in_the_documentation_are_filters() -> None:
    written = re.findall(r"--filter '([^']+)'", DOCS.read_text())
    assert len(written) >= 10
    for text in written:
        parse_filter(text)
