"""Read the bytes of one log: backwards from its end, or forwards from an offset.

Uses only the Store contract. Nothing here decodes the bytes; lines end with a newline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.errors import KeyNotFound

if TYPE_CHECKING:
    from gofer.storage.base import Store

CHUNK = 1 << 20
_FIRST_STEP = 1 << 14
# A progress bar can be one line of many megabytes. A tail has at most this size, or 1 KiB per requested line.
TAIL_LIMIT = 1 << 20
_PER_LINE = 1 << 10


def read_tail(store: Store, key: str, lines: int) -> tuple[int, bytes]:
    """(offset, bytes) of the last `lines` lines of the log as it is now; (0, b"") when it is absent.

    Reads backwards, and little more than it returns. A last line without a newline counts as a line. A tail
    that is longer than the limit is cut at its front, even in the middle of a line.
    """
    info = store.head(key)
    if info is None or lines <= 0:
        return (info.size if info else 0), b""
    limit = max(TAIL_LIMIT, lines * _PER_LINE)
    start, step, pieces, newlines = info.size, _FIRST_STEP, list[bytes](), 0
    while start > 0 and info.size - start < limit:
        length = min(step, start, limit - (info.size - start))
        piece = _get(store, key, start - length, length)
        if len(piece) < length:
            break  # the log was replaced by a shorter one; return what was read so far
        pieces.append(piece)
        start, step, newlines = start - length, min(step * 2, CHUNK), newlines + piece.count(b"\n")
        if newlines >= lines + pieces[0].endswith(b"\n"):
            return _last_lines(b"".join(reversed(pieces)), start, lines)
    return start, b"".join(reversed(pieces))


def read_before(store: Store, key: str, end: int, length: int) -> bytes:
    """Up to `length` bytes that end at `end`; b"" when absent."""
    length = min(length, end)
    return _get(store, key, end - length, length) if length > 0 else b""


def read_forward(store: Store, key: str, start: int = 0) -> Iterator[bytes]:
    """The bytes from `start` to the end, in chunks; nothing when the log is absent."""
    while piece := _get(store, key, start, CHUNK):
        yield piece
        if len(piece) < CHUNK:  # a short chunk is the last one, so save a request
            return
        start += CHUNK


def _get(store: Store, key: str, start: int, length: int) -> bytes:
    try:
        return store.get_range(key, start, length)
    except KeyNotFound:
        return b""


def _last_lines(data: bytes, start: int, lines: int) -> tuple[int, bytes]:
    """(offset, bytes) of the last `lines` lines of `data`, which begins at `start` and holds more."""
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
    return start + at + 1, data[at + 1 :]
