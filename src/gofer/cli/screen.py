"""What may be shown on a terminal: safe characters, their widths, colours, and talk on stderr."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_COLOURS = {
    "succeeded": "32",
    "ok": "32",
    "running": "36",
    "starting": "36",
    "failed": "31",
    "FAIL": "31",
    "lost": "31",
    "cancelled": "33",
    "paused": "33",
    "warn": "33",
}


def printable(text: str) -> str:
    """`text` with everything that could move the cursor or hide itself written as an escape.

    Format and bidirectional marks count as hiding; bytes that are no UTF-8 are shown as `\\udcXX`.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


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


def colourful(stream: TextIO) -> bool:
    """Whether colours are welcome there: a terminal that is not dumb, and no `NO_COLOR`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, word: str) -> str:
    """`text` in the colour of the state or verdict `word`; as it is when that has none."""
    code = _COLOURS.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def say(text: str) -> None:
    """Talk: a line on stderr, never data."""
    print(printable(text), file=sys.stderr, flush=True)


def hush(text: str) -> None:
    """What `--quiet` makes of talk: nothing."""


def write(data: bytes) -> None:
    """Bytes to stdout exactly as they are, behind whatever was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
