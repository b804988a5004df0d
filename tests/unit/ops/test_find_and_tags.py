"""Runs by what a person types, and labels put on them later."""

from __future__ import annotations

import json

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import T0, make_group, make_record

from gofer.errors import UnknownName, UsageError
from gofer.ops.maintenance.rebuild import rebuild
from gofer.ops.runs.find import find, find_all
from gofer.ops.runs.tags import parse_edits, tag

RUN = "r261116-091233-k9qd4x"
OTHER = "r261116-101500-bbbbbb"


def test_find_by_part_last_and_folder(project: OpsProject) -> None:
    project.add(make_record(RUN))
    project.add(make_record(OTHER, submitted_at=T0 + 60, target="lab"))
    for reference in ("k9qd4x", RUN, "qd4x", "r261116-0912", f"assets/{RUN}/"):
        assert find(project.session, reference).id == RUN
    assert find(project.session, "last").id == OTHER
    assert find(project.session, "last", target="local").id == RUN
    with pytest.raises(UsageError, match="fits 2 runs"):
        find(project.session, "r2611")
    with pytest.raises(UnknownName):
        find(project.session, "zzz")


def test_find_all_keeps_the_order_and_takes_each_once(project: OpsProject) -> None:
    project.add(make_record(RUN))
    project.add(make_record(OTHER, submitted_at=T0 + 60))
    assert [row.id for row in find_all(project.session, ["last", "9qd4x", OTHER])] == [OTHER, RUN]
    with pytest.raises(UsageError, match="no run was named"):
        find_all(project.session, [])


def test_tags_are_set_changed_and_removed(project: OpsProject) -> None:
    row = project.add(make_record(RUN, job={"tags": {"lr": "0.1", "old": ""}}))
    (tagged,) = tag(project.session, [row], ["best", "lr=0.2", "note=a = b, c", "-old", "-never"])
    expected = {"lr": "0.2", "best": "", "note": "a = b, c"}
    assert tagged.tags == project.get(RUN).tags == expected
    assert json.loads(project.store.get(f"runs/{RUN}/tags.json")) == expected


def test_tags_survive_a_rebuild_and_a_group_s_rows_have_their_own(project: OpsProject) -> None:
    project.add(make_record(RUN, job={"tags": {"lr": "0.1"}}))
    project.add(make_group(OTHER, 3, job={"tags": {"sweep": ""}}))
    rows = find_all(project.session, [RUN, OTHER, f"{OTHER}-1", f"{OTHER}-2"])
    tag(project.session, rows[:1], ["-lr"])
    tag(project.session, rows[1:3], ["good"])
    tag(project.session, rows[3:], ["note=café \udcff"])
    before = {row.id: row.tags for row in find_all(project.session, [r.id for r in rows])}
    assert before == {
        RUN: {},
        OTHER: {"sweep": "", "good": ""},
        f"{OTHER}-1": {"sweep": "", "good": ""},
        f"{OTHER}-2": {"sweep": "", "note": "café \udcff"},
    }
    rebuild(project.session)
    assert {row.id: row.tags for row in find_all(project.session, [r.id for r in rows])} == before


@pytest.mark.parametrize("words", [[], ["=x"], ["-"], ["--"], ["-a=b"], ["a b"], [""], ["ok", "no/slash=1"]])
def test_words_that_are_no_tags_change_nothing(project: OpsProject, words: list[str]) -> None:
    row = project.add(make_record(RUN))
    with pytest.raises(UsageError):
        tag(project.session, [row], words)
    assert project.get(RUN).tags == {}
    assert project.store.head(f"runs/{RUN}/tags.json") is None


def test_the_last_word_on_a_key_counts() -> None:
    assert parse_edits(["a=1", "-a", "b", "b=2"]) == {"a": None, "b": "2"}
