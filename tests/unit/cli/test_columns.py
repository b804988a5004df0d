"""What each column of `gofer list runs` shows, and the files it exports."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from unit.cli.runs import NOW, a_group, a_run

from gofer.cli.output.columns import EXPORTED, SHOWN, column, parse_columns, summary, text, value
from gofer.cli.output.export import write_runs
from gofer.cli.output.table import render
from gofer.errors import UnknownName, UsageError


def test_the_usual_table() -> None:
    rows = [
        a_run(),
        a_run(
            id="r260921-140640-bcdfgh", state="running", name="eval", elapsed_s=None, ended_at=None, gpus=0
        ),
        a_run(id="r260921-140640-pqrst2", state="failed", reason="exit-code", exit_code=3, command=["false"]),
        a_run(id="r260921-140640-zzzzz9", state="queued", started_at=None, elapsed_s=None, command=["a\nb"]),
        a_group(
            {"succeeded": 990, "failed": 3, "queued": 7},
            id="r260921-140640-ggggg2",
            state="queued",
            elapsed_s=None,
        ),
    ]
    cells = [[text(name, row, NOW) for name in SHOWN] for row in rows]
    table = render([column(name, chosen=False) for name in SHOWN], cells)
    assert table == (Path(__file__).parent / "golden" / "list-runs.txt").read_text()


def test_every_column_has_text_and_value() -> None:
    names = parse_columns(",".join([*EXPORTED, *SHOWN, "rows", "tags", "backend", "tag.lr", "arg.seed"]))
    row = a_run(tags={"lr": "0.1"}, args={"seed": "7"})
    shown = {name: text(name, row, NOW) for name in names}
    exact = {name: value(name, row, NOW) for name in names}
    assert shown["tag.lr"] == exact["tag.lr"] == "0.1"
    assert shown["arg.seed"] == "7"
    assert exact["age"] == 3600
    assert exact["submitted"] == "2026-09-21T13:13:20.000000Z"
    assert exact["command"] == "python train.py --data 'voc 20'"
    assert shown["short"] == "k9qd4x"
    assert exact["rows"] is None
    assert shown["rows"] == ""


def test_absent_tags_are_empty() -> None:
    assert text("tag.lr", a_run(), NOW) == ""
    assert value("tag.lr", a_run(), NOW) is None


def test_a_tag_without_a_value_is_seen() -> None:
    assert text("tag.baseline", a_run(tags={"baseline": ""}), NOW) == "yes"
    assert text("tags", a_run(tags={"baseline": "", "lr": "1"}), NOW) == "baseline,lr=1"


@pytest.mark.parametrize(
    ("typed", "hint"), [("stat", "did you mean `state`?"), ("zzz", "the columns are id")]
)
def test_an_unknown_column_is_refused(typed: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=f"`{typed}` is not a column") as caught:
        parse_columns(f"id,{typed}")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)


def test_no_column_is_refused() -> None:
    with pytest.raises(UnknownName, match="names no column"):
        parse_columns(" , ")


def test_a_summary_counts_every_state() -> None:
    assert summary({"queued": 7, "succeeded": 990, "failed": 3}) == "990 ok, 3 failed, 7 queued"
    assert summary({"paused": 1, "running": 0}) == "1 paused"
    assert summary({}) == ""


@pytest.mark.parametrize(("ending", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_an_exported_table_reads_back(tmp_path: Path, ending: str, delimiter: str) -> None:
    file = tmp_path / f"runs.{ending}"
    write_runs([a_run(tags={"lr": "0.1"}, name='comma, "quote"\nline')], EXPORTED, str(file), all_tags=True)
    with open(file, newline="") as stream:
        heading, first = list(csv.reader(stream, delimiter=delimiter))
    assert heading == [*EXPORTED, "tag.lr"]
    found = dict(zip(heading, first, strict=True))
    assert found["id"] == "r260921-140640-k9qd4x"
    assert found["name"] == 'comma, "quote"\nline'
    assert found["elapsed"] == "200.25"
    assert found["reason"] == ""
    assert found["tag.lr"] == "0.1"


def test_exported_json_keeps_types(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    write_runs(
        [a_run(args={"seed": "7"}, command=["\udcff"])],
        ["id", "gpus", "reason", "command"],
        str(file),
        all_tags=True,
    )
    (found,) = json.loads(file.read_text())
    assert found == {
        "id": "r260921-140640-k9qd4x",
        "gpus": 8,
        "reason": None,
        "command": "'\udcff'",
        "arg.seed": "7",
    }


def test_another_ending_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ends in none of"):
        write_runs([a_run()], EXPORTED, str(tmp_path / "runs.xlsx"), all_tags=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    folder = tmp_path / "runs.csv"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_runs([a_run()], EXPORTED, str(folder), all_tags=True)
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]
