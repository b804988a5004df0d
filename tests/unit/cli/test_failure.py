"""How errors read: one line, a hint, the right exit status, no secret, no traceback unless asked for."""

from __future__ import annotations

import errno
import os

import click
import pytest

from gofer.cli.output.failure import explain
from gofer.config.redact import remember
from gofer.errors import CheckFailed, GoferError, UnknownName


def _explained(
    error: Exception, capsys: pytest.CaptureFixture[str], *, debug: bool = False
) -> tuple[int, str]:
    status = explain(error, debug=debug)
    printed = capsys.readouterr()
    assert printed.out == ""
    return status, printed.err


def test_an_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = UnknownName("there is no target `labb`", hint="did you mean `lab`?")
    assert _explained(error, capsys) == (2, "error: there is no target `labb`\nhint: did you mean `lab`?\n")


def test_an_error_without_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert _explained(CheckFailed("6 GPUs do not divide"), capsys) == (1, "error: 6 GPUs do not divide\n")


def test_a_list_of_candidates_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = _explained(GoferError("two fit:\n  one\n  two\x1b[2J"), capsys)
    assert text == "error: two fit:\n  one\n  two\\x1b[2J\n"


def test_a_surprise_names_itself(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = _explained(KeyError("rank"), capsys)
    assert status == 1
    assert text.startswith("error: unexpected KeyError: 'rank'\nhint: `gofer --debug …`")
    assert "Traceback" not in text


def test_debug_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError("rank")
    except KeyError as error:
        _, text = _explained(error, capsys, debug=True)
    assert text.startswith("Traceback")
    assert "test_failure.py" in text


@pytest.mark.parametrize(
    ("number", "message", "hint"),
    [
        (errno.ENOSPC, "no space left on device: /x/y", "free some space"),
        (errno.EACCES, "permission denied: /x/y", "GOFER_HOME"),
        (errno.EROFS, "read-only file system: /x/y", "GOFER_HOME"),
        (errno.EIO, "input/output error: /x/y", "--debug"),
    ],
)
def test_the_system_says_no(capsys: pytest.CaptureFixture[str], number: int, message: str, hint: str) -> None:
    status, text = _explained(OSError(number, os.strerror(number), "/x/y"), capsys)
    assert status == 1
    assert f"error: {message}\n" in text
    assert hint in text


def test_words_click_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    error = click.BadParameter("'x' is not a valid integer.", param_hint="'-n'")
    status, text = _explained(error, capsys)
    assert status == 2
    assert text.startswith("error: invalid value for '-n': 'x' is not a valid integer\nhint: ")


def test_a_prompt_left_by_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = _explained(click.Abort(), capsys)
    assert status == 130


def test_secrets_are_masked_in_the_message_and_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    dummy = "dummy-secret-for-tests"
    remember(dummy)
    try:
        raise ValueError(f"the server said {dummy}")
    except ValueError as error:
        _, text = _explained(error, capsys, debug=True)
    assert dummy not in text
    assert "error: unexpected ValueError: the server said ***\n" in text
