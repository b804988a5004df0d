"""Output for terminals: safe characters, their widths, and messages on stderr."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from gofer.cli.output.terminal_text import TerminalStream, TerminalText
from gofer.cli.output.theme import themed
from gofer.ops.messages import LiveStatus
from gofer.text import printable as printable

if TYPE_CHECKING:
    from gofer.ops.messages import AnyMessage

# One filter per stream, since an escape sequence may continue in the next piece.
_TEXTS: dict[int, TerminalText] = {}
# The device and inode of each file or terminal where the last bytes of a log ended in the middle of a line.
_MID_LINE: set[tuple[int, int]] = set()
# The exit status of a command whose reader left: that of a shell for SIGPIPE.
CLOSED_PIPE = 141


def width(text: str) -> int:
    """The columns that printable `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, columns: int) -> str:
    """`text` in at most `columns` columns, ended by `…` when something is missing."""
    if width(text) <= columns:
        return text
    kept = ""
    for character in text:
        if width(kept + character) >= columns:
            break
        kept += character
    return kept + "…" if columns > 0 else ""


def columns_of(stream: TextIO) -> int:
    """The width of the terminal that the stream leads to; 80 where it is not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def print_message(message: AnyMessage | str) -> None:
    """Print a message on stderr, never data. A stderr that cannot be written is ignored."""
    if isinstance(message, LiveStatus):
        from gofer.cli.output.live_line import status_view  # loads threads, which most commands do not need

        status_view().show(message)
        return
    with suppress(OSError):
        end_log_line()
        print(themed(printable(str(message)), sys.stderr), file=sys.stderr, flush=True)


def end_log_line() -> None:
    """Begin a new line on stderr where it leads to the same place as a log whose last line has no end.

    The last line of a log has no end where a command was stopped in the middle of a progress bar.
    """
    if not _MID_LINE:
        return
    place = _place_of(sys.stderr)
    if place is not None and place in _MID_LINE:
        _MID_LINE.remove(place)
        sys.stderr.write("\n")


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _place_of(stream: TextIO) -> tuple[int, int] | None:
    """The device and inode behind the stream; None for a stream of a Python program without a file."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def confirmation_prompt() -> Callable[[str], bool] | None:
    """A function that asks the person a question with yes or no on the terminal; None without a terminal."""
    return _agreed if _is_on_terminal() else None


def answer_prompt() -> Callable[[str], str] | None:
    """A function that shows a prompt on the terminal and returns what the person types; None without a
    terminal.
    """
    return (lambda prompt: _answer(prompt).strip()) if _is_on_terminal() else None


def is_declined(question: str) -> bool:
    """Whether the person says no to a question on the terminal; Enter means yes. False without a terminal."""
    if not _is_on_terminal():
        return False
    answer = _answer(f"{question} [Y/n] ")
    return answer.strip().lower() not in ("", "y", "yes") or not answer  # no line at all: the input ended


def _agreed(question: str) -> bool:
    return _answer(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _is_on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _answer(prompt: str) -> str:
    sys.stderr.write(printable(prompt))
    sys.stderr.flush()
    return sys.stdin.readline()


def is_on_screen(*, quiet: bool) -> bool:
    """Whether a person reads both streams on a terminal: one message with the id of a run is then enough."""
    return sys.stdout.isatty() and sys.stderr.isatty() and not quiet


def print_nothing(message: AnyMessage | str) -> None:
    """Print nothing: used in place of `print_message` with `--quiet`."""


def write(data: bytes, stream: TextIO | None = None) -> None:
    """Write bytes of a log to stdout or another stream, after everything that was printed before.

    The bytes are unchanged, except that a terminal gets no control sequences: see
    `gofer.cli.output.terminal_text`.
    """
    stream = sys.stdout if stream is None else stream
    if stream.isatty():
        data = _terminal_text(stream).clean(data)
    if isinstance(stream, TerminalStream):
        stream.write_bytes(data)
    else:
        if data and TerminalStream.live is not None and _is_pipe(stream):
            TerminalStream.live.retire()  # the reader, such as `tee`, may write to the same terminal
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    place = _place_of(stream) if data else None
    if place is not None:
        (_MID_LINE.discard if data.endswith(b"\n") else _MID_LINE.add)(place)


def _terminal_text(stream: TextIO) -> TerminalText:
    return _TEXTS.setdefault(stream.fileno(), TerminalText())
