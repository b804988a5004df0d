"""Tables and lines of facts: exact renderings, widths, and text that tries to move the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.cli.output.screen import cut, printable, width
from gofer.cli.output.table import Column, render, render_facts

COLUMNS = [
    Column("ID"),
    Column("GPUS", right=True),
    Column("STATE", coloured=True),
    Column("COMMAND", flexible=True),
]


def _render(*rows: list[str], fit: int | None = None, colour: bool = False) -> str:
    return render(COLUMNS, rows, fit=fit, colour=colour)


def test_columns_line_up() -> None:
    table = _render(["k9qd4x", "8", "running", "python train.py"], ["b2", "16", "failed", "ls"])
    assert table == (
        "ID      GPUS  STATE    COMMAND\n"
        "k9qd4x     8  running  python train.py\n"
        "b2        16  failed   ls\n"
    )  # fmt: skip


def test_no_rows_leave_the_heading() -> None:
    assert _render() == "ID  GPUS  STATE  COMMAND\n"


def test_wide_characters_take_two_columns() -> None:
    table = _render(["训练", "1", "running", "ls"], ["abcd", "1", "running", "ls"])
    first, second = table.splitlines()[1:]
    assert first == "训练     1  running  ls"
    assert second == "abcd     1  running  ls"
    assert width("训练") == 4


def test_combining_marks_take_none() -> None:
    assert width("e\u0301") == 1


def test_a_narrow_screen_cuts_flexible_columns_only() -> None:
    table = _render(["k9qd4x", "8", "running", "python train.py --data voc20"], fit=40)
    line = table.splitlines()[1]
    assert line == "k9qd4x     8  running  python train.py …"
    assert width(line) == 40


def test_a_column_is_never_cut_below_eight() -> None:
    line = _render(["k9qd4x", "8", "running", "python train.py"], fit=5).splitlines()[1]
    assert line == "k9qd4x     8  running  python …"


def test_nothing_is_cut_when_piped() -> None:
    command = "x" * 5000
    assert command in _render(["a", "1", "running", command])


def test_colour_does_not_move_columns() -> None:
    plain = _render(["a", "1", "failed", "ls"], ["b", "1", "succeeded", "ls"])
    coloured = _render(["a", "1", "failed", "ls"], ["b", "1", "succeeded", "ls"], colour=True)
    assert "\x1b[31mfailed\x1b[0m" in coloured
    assert "\x1b[32msucceeded\x1b[0m" in coloured
    assert coloured.replace("\x1b[31m", "").replace("\x1b[32m", "").replace("\x1b[0m", "") == plain


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\rover", "\\rover"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u202eevil"),
        ("\udcff", "\\udcff"),
        ("\x00", "\\x00"),
        ("tab\there", "tab\\there"),
        ("plain ö 训", "plain ö 训"),
    ],
)
def test_text_cannot_move_the_cursor(hostile: str, shown: str) -> None:
    assert printable(hostile) == shown
    assert shown in _render(["a", "1", "running", hostile])


@given(st.text())
def test_printable_text_is_printable_and_one_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown


@given(st.text().map(printable), st.integers(min_value=1, max_value=30))
def test_cut_text_fits(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns


def test_facts_line_up() -> None:
    facts = [("id", "r1"), ("short id", "1"), ("usage", "node 0\n  GPU 0\x1b")]
    assert render_facts(facts) == (
        "id        r1\n"
        "short id  1\n"
        "usage     node 0\n"
        "            GPU 0\\x1b\n"
    )  # fmt: skip


def test_no_facts_are_no_lines() -> None:
    assert render_facts([]) == ""


DROPPING = [
    Column("ID"),
    Column("GPUS", right=True, drop=1),
    Column("TARGET", drop=2),
    Column("COMMAND", flexible=True),
]


@pytest.mark.parametrize(
    ("fit", "heading"),
    [
        (40, "ID      GPUS  TARGET  COMMAND"),
        (30, "ID      GPUS  TARGET  COMMAND"),
        (29, "ID      TARGET  COMMAND"),
        (23, "ID      COMMAND"),
        (5, "ID      COMMAND"),
    ],
)
def test_a_narrow_terminal_drops_columns_before_a_line_wraps(fit: int, heading: str) -> None:
    table = render(DROPPING, [["k9qd4x", "8", "lab", "python train.py --lr 1"]], fit=fit)
    assert table.splitlines()[0] == heading
    assert max(map(len, table.splitlines())) <= max(fit, 16)


def test_a_file_gets_every_column() -> None:
    assert render(DROPPING, [["k9qd4x", "8", "lab", "ls"]]).startswith("ID      GPUS  TARGET  COMMAND\n")
