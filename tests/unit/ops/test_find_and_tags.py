"""Runs by what a person types, and labels put on them later."""

from __future__ import annotations

import json

import pytest
from unit.ops.desk import Desk
from unit.ops.run_folders import T0, make_group, make_record

from gofer.errors import UnknownName, UsageError
from gofer.ops.maintenance.rebuild import rebuild
from gofer.ops.runs.find import find, find_all
from gofer.ops.runs.tags import parse_edits, tag

RUN = "r261116-091233-k9qd4x"
OTHER = "r261116-101500-bbbbbb"


def test_find_by_part_last_and_folder(desk: Desk) -> None:
    desk.add(make_record(RUN))
    desk.add(make_record(OTHER, submitted_at=T0 + 60, target="lab"))
    for reference in ("k9qd4x", RUN, "qd4x", "r261116-0912", f"assets/{RUN}/"):
        assert find(desk.session, reference).id == RUN
    assert find(desk.session, "last").id == OTHER
    assert find(desk.session, "last", target="local").id == RUN
    with pytest.raises(UsageError, match="fits 2 runs"):
        find(desk.session, "r2611")
    with pytest.raises(UnknownName):
        find(desk.session, "zzz")


def test_find_all_keeps_the_order_and_takes_each_once(desk: Desk) -> None:
    desk.add(make_record(RUN))
    desk.add(make_record(OTHER, submitted_at=T0 + 60))
    assert [row.id for row in find_all(desk.session, ["last", "9qd4x", OTHER])] == [OTHER, RUN]
    with pytest.raises(UsageError, match="no run was named"):
        find_all(desk.session, [])


def test_tags_are_set_changed_and_removed(desk: Desk) -> None:
    row = desk.add(make_record(RUN, job={"tags": {"lr": "0.1", "old": ""}}))
    (tagged,) = tag(desk.session, [row], ["best", "lr=0.2", "note=a = b, c", "-old", "-never"])
    expected = {"lr": "0.2", "best": "", "note": "a = b, c"}
    assert tagged.tags == desk.get(RUN).tags == expected
    assert json.loads(desk.store.get(f"runs/{RUN}/tags.json")) == expected


def test_tags_survive_a_rebuild_and_a_group_s_rows_have_their_own(desk: Desk) -> None:
    desk.add(make_record(RUN, job={"tags": {"lr": "0.1"}}))
    desk.add(make_group(OTHER, 3, job={"tags": {"sweep": ""}}))
    rows = find_all(desk.session, [RUN, OTHER, f"{OTHER}-1", f"{OTHER}-2"])
    tag(desk.session, rows[:1], ["-lr"])
    tag(desk.session, rows[1:3], ["good"])
    tag(desk.session, rows[3:], ["note=café \udcff"])
    before = {row.id: row.tags for row in find_all(desk.session, [r.id for r in rows])}
    assert before == {
        RUN: {},
        OTHER: {"sweep": "", "good": ""},
        f"{OTHER}-1": {"sweep": "", "good": ""},
        f"{OTHER}-2": {"sweep": "", "note": "café \udcff"},
    }
    rebuild(desk.session)
    assert {row.id: row.tags for row in find_all(desk.session, [r.id for r in rows])} == before


@pytest.mark.parametrize("words", [[], ["=x"], ["-"], ["--"], ["-a=b"], ["a b"], [""], ["ok", "no/slash=1"]])
def test_words_that_are_no_tags_change_nothing(desk: Desk, words: list[str]) -> None:
    row = desk.add(make_record(RUN))
    with pytest.raises(UsageError):
        tag(desk.session, [row], words)
    assert desk.get(RUN).tags == {}
    assert desk.store.head(f"runs/{RUN}/tags.json") is None


def test_the_last_word_on_a_key_counts() -> None:
    assert parse_edits(["a=1", "-a", "b", "b=2"]) == {"a": None, "b": "2"}
