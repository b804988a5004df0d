"""The colours of gofer: when they are used, and which word has which. The only module that knows them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

CHOICES = ("auto", "always", "never")
_GREEN, _YELLOW, _RED, _CYAN, _DIM = "32", "33", "31", "36", "2"
_COLOURS = {
    "succeeded": _GREEN,
    "ok": _GREEN,
    "free": _GREEN,
    "mixed": _CYAN,
    "busy": _YELLOW,
    "down": _RED,
    "running": _CYAN,
    "starting": _CYAN,
    "queued": _YELLOW,
    "pending": _YELLOW,
    "paused": _YELLOW,
    "cancelled": _YELLOW,
    "warn": _YELLOW,
    "failed": _RED,
    "FAIL": _RED,
    "lost": _RED,
    "error:": _RED,
    "warning:": _YELLOW,
    "hint:": _DIM,
    "note:": _DIM,
}
_MARK = re.compile(r"(error|warning|hint|note):(?= )")
_STATES = "succeeded|running|starting|queued|pending|paused|cancelled|failed|lost"
# `k9qd4x failed …`, `k9qd4x is starting`, `k9qd4x was cancelled`
_STATE_LINE = re.compile(rf"(?P<run>[\w-]+ (?:is |was )?)(?P<state>{_STATES})(?=$|[ :;,])")
# The value of `--color` in this process, if it was given.
_chosen: list[str] = []


def choose(choice: str) -> None:
    """Follow `--color` in this process: one of CHOICES."""
    _chosen[:] = [choice]


def has_colours(stream: TextIO) -> bool:
    """Whether text on this stream gets colours.

    `--color` decides. With `auto`: `NO_COLOR`, then `FORCE_COLOR` or `CLICOLOR_FORCE`, then a terminal that
    supports colours and no `CLICOLOR=0`.
    """
    choice = _chosen[0] if _chosen else "auto"
    if choice != "auto":
        return choice == "always"
    environ = os.environ
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb" and environ.get("CLICOLOR") != "0"


def paint(text: str, word: str) -> str:
    """`text` in the colour of the state, verdict or mark `word`; unchanged when it has none."""
    code = _COLOURS.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def themed(line: str, stream: TextIO) -> str:
    """A printable line of a message, with the colour of its mark (`error:`) or of a run's state."""
    if not has_colours(stream):
        return line
    mark = _MARK.match(line)
    if mark:
        return paint(mark[0], mark[0]) + line[mark.end() :]
    found = _STATE_LINE.match(line)
    if found:
        return found["run"] + paint(found["state"], found["state"]) + line[found.end() :]
    return line
