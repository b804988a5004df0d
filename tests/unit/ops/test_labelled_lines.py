"""Pieces of a log become whole lines with a label, however the pieces are cut."""

from __future__ import annotations

import pytest

from gofer.errors import UsageError
from gofer.ops.logs.labelled_lines import LogLines, compile_pattern


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_whole_and_labelled(size: int) -> None:
    data = b"one\r\n\n 1%\r50%\r100%\nl\xffast"
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    got = b"".join(LogLines("12").of(pieces))
    assert got == b"[12] one\r\n[12] \n[12] 100%\n[12] l\xffast\n"


def test_only_lines_that_match() -> None:
    pattern = compile_pattern("^loss|naïve")
    lines = LogLines("", pattern)
    assert lines.add(b"loss 1\nno loss\nna") == b"loss 1\n"
    assert lines.add("ïve\nlos".encode()) == "naïve\n".encode()
    assert (lines.add(b"s 2"), lines.rest(), lines.rest()) == (b"", b"loss 2\n", b"")


def test_the_pattern_sees_the_final_state_of_a_line() -> None:
    assert list(LogLines("", compile_pattern("5%")).of([b" 5%\r99%\n"])) == []


def test_a_log_without_line_ends_is_not_held_back_for_ever() -> None:
    lines = LogLines("0")
    got = b"".join(lines.add(b"x" * 300_000) for _ in range(8))
    assert got.startswith(b"[0] xxx") and len(got) > 1_000_000


def test_what_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular expression") as caught:
        compile_pattern("f(")
    assert "`\\(`" in (caught.value.hint or "")


def test_a_progress_bar_can_be_shown_before_its_end() -> None:
    lines = LogLines("0")
    assert (lines.add(b"loading"), lines.progress()) == (b"", b"")
    assert (lines.add(b"\n\r 1%\r 2%"), lines.progress()) == (b"[0] loading\n", b"[0]  2%\n")
    assert lines.progress() == b"", "nothing new"
    assert (lines.add(b"\r 3%\r"), lines.progress()) == (b"", b"[0]  3%\n")
    assert lines.add(b"\r 9%\n") == b"[0]  9%\n"
    assert (lines.add(b"\r10%"), lines.progress()) == (b"", b"[0] 10%\n")
    assert lines.add(b"\n10%\n") == b"[0] 10%\n", "the state that was shown is not repeated"
    assert (lines.add(b"\r11%"), lines.progress(), lines.rest()) == (b"", b"[0] 11%\n", b"")
    assert LogLines("", compile_pattern("x")).progress() == b""
