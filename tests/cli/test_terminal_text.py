"""What of a log reaches a terminal, and that all of it reaches a pipe."""

from __future__ import annotations

import pytest
from home import Home
from hypothesis import given
from hypothesis import strategies as st
from terminal import Terminal

from gofer.cli.output.terminal_text import TerminalText

HARMFUL = {
    "clipboard": b"\x1b]52;c;aGFjaw==\x07",
    "title": b"\x1b]0;title\x1b\\",
    "cursor": b"\x1b[2A\x1b[1;1H\x1b[2K",
    "reset": b"\x1bc",
    "charset": b"\x1b(0",
    "device": b"\x1bP1$r0m\x1b\\",
    "report": b"\x1b[6n",
    "c1": "\x9b31m\x9d0;x\x9c".encode(),
    "backspace": b"\x08\x08",
    "bell": b"\x07\x00\x0e",
}


def cleaned(*pieces: bytes) -> bytes:
    text = TerminalText()
    return b"".join(text.clean(piece) for piece in pieces)


@pytest.mark.parametrize("name", HARMFUL)
def test_what_a_terminal_would_obey_is_left_out(name: str) -> None:
    shown = cleaned(b"before " + HARMFUL[name] + b" after\n")
    assert shown.startswith(b"before ")
    assert shown.endswith(b" after\n")
    assert all(character.isprintable() for character in shown.decode().rstrip("\n"))


def test_colours_tabs_and_bars_pass() -> None:
    line = "\x1b[1;31mred\x1b[0m\ttab\r 50%|█████     |\r100%\n".encode()
    assert cleaned(line) == line


@given(st.binary(max_size=60), st.integers(0, 60))
def test_no_piece_boundary_lets_a_sequence_through(tail: bytes, at: int) -> None:
    data = b"a\x1b]52;c;aGk=\x07b\x1b[5Ac" + tail
    shown = cleaned(data[:at], data[at:])
    assert b"\x1b]" not in shown
    assert b"\x1b[5A" not in shown
    assert shown == cleaned(data)


def test_a_sequence_that_never_ends_hides_nothing_for_long() -> None:
    text = TerminalText()
    text.clean(b"\x1b]0;" + b"x" * 5000)
    assert text.clean(b"visible\n") == b"visible\n"


def test_a_log_on_a_terminal_and_in_a_pipe(home: Home) -> None:
    run = home.submit("printf", r"one\033]52;c;aGFjaw==\007two\n")
    home.wait(run)
    assert home.log(run) == "one\x1b]52;c;aGFjaw==\x07two\n"
    with Terminal(home.argv("logs", run), cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0
    assert "onetwo" in terminal.shown
    assert "\x1b]52" not in terminal.shown
