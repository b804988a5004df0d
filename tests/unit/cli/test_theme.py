"""Colours: when they are used, and what gets them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from gofer.cli.output.theme import choose, has_colours, themed


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield
    choose("auto")


@pytest.mark.parametrize(
    ("variables", "on_screen", "in_a_file"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR": "0"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_the_environment_decides(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on_screen: bool, in_a_file: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (has_colours(_Screen()), has_colours(io.StringIO())) == (on_screen, in_a_file)


def test_the_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    choose("always")
    assert has_colours(io.StringIO())
    monkeypatch.delenv("NO_COLOR")
    choose("never")
    assert not has_colours(_Screen())


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("error: no", "\x1b[31merror:\x1b[0m no"),
        ("warning: low", "\x1b[33mwarning:\x1b[0m low"),
        ("hint: try", "\x1b[2mhint:\x1b[0m try"),
        ("k9qd4x failed (exit-code): 1", "k9qd4x \x1b[31mfailed\x1b[0m (exit-code): 1"),
        ("k9qd4x succeeded", "k9qd4x \x1b[32msucceeded\x1b[0m"),
        ("k9qd4x failedover", "k9qd4x failedover"),
        ("the error: no", "the error: no"),
    ],
)
def test_marks_and_states_of_messages(line: str, shown: str) -> None:
    assert themed(line, io.StringIO()) == line
    assert themed(line, _Screen()) == shown
