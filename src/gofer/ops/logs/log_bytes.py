"""Read the bytes of one log: backwards from its end, or forwards from an offset.

A log is in a store, in a service, or a copy on this machine; each is a `LogBytes`. Nothing here decodes the
bytes; lines end with a newline.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gofer.backends.base import NATIVE_PIECE
from gofer.errors import KeyNotFound

if TYPE_CHECKING:
    from gofer.backends.base import LogService
    from gofer.storage.base import Store

CHUNK = 1 << 20
# A progress bar can be one line of many megabytes. A tail has at most this size, or 1 KiB per requested line.
TAIL_LIMIT = 1 << 20
_PER_LINE = 1 << 10


class LogBytes(Protocol):
    """The bytes of one log. A log that does not exist is empty.

    `chunk` is the most bytes of one request, and `first_step` how much of the end is read at first.
    """

    @property
    def chunk(self) -> int: ...

    @property
    def first_step(self) -> int: ...

    def size(self) -> int:
        """The present size."""

    def read(self, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`, at most a chunk; fewer only at the end of the log."""


class StoredLog(NamedTuple):
    """An object of a store. StoreError passes through."""

    store: Store
    key: str

    @property
    def chunk(self) -> int:
        return CHUNK

    @property
    def first_step(self) -> int:
        return 1 << 14

    def size(self) -> int:
        info = self.store.head(self.key)
        return 0 if info is None else info.size

    def read(self, start: int, length: int) -> bytes:
        try:
            return self.store.get_range(self.key, start, length)
        except KeyNotFound:
            return b""


class ServiceLog(NamedTuple):
    """A log that a service keeps of a run. BackendError and CredentialError pass through."""

    service: LogService
    run_id: str
    name: str

    @property
    def chunk(self) -> int:
        return NATIVE_PIECE

    @property
    def first_step(self) -> int:
        return 1 << 18  # a request to a service takes longer than this many bytes

    def size(self) -> int:
        return self.service.native_size(self.run_id, self.name) or 0

    def read(self, start: int, length: int) -> bytes:
        return self.service.read_native(self.run_id, self.name, start)[:length]


class LocalLog(NamedTuple):
    """A copy of a log on this machine. A copy that cannot be read is empty."""

    path: Path

    @property
    def chunk(self) -> int:
        return CHUNK

    @property
    def first_step(self) -> int:
        return 1 << 14

    def size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def read(self, start: int, length: int) -> bytes:
        with suppress(OSError), open(self.path, "rb") as file:
            file.seek(start)
            return file.read(length)
        return b""


def read_tail(log: LogBytes, lines: int) -> tuple[int, bytes]:
    """(offset, bytes) of the last `lines` lines of the log as it is now; (0, b"") when it is absent.

    Reads backwards, and little more than it returns. A last line without a newline counts as a line. A tail
    that is longer than the limit is cut at its front, even in the middle of a line.
    """
    size = log.size()
    if not size or lines <= 0:
        return size, b""
    limit = max(TAIL_LIMIT, lines * _PER_LINE)
    start, step, pieces, newlines = size, log.first_step, list[bytes](), 0
    while start > 0 and size - start < limit:
        length = min(step, start, limit - (size - start))
        piece = log.read(start - length, length)
        if len(piece) < length:
            break  # the log was replaced by a shorter one; return what was read so far
        pieces.append(piece)
        start, step, newlines = start - length, min(step * 2, CHUNK), newlines + piece.count(b"\n")
        if newlines >= lines + pieces[0].endswith(b"\n"):
            return _last_lines(b"".join(reversed(pieces)), start, lines)
    return start, b"".join(reversed(pieces))


def read_before(log: LogBytes, end: int, length: int) -> bytes:
    """Up to `length` bytes that end at `end`; b"" when absent."""
    length = min(length, end)
    return log.read(end - length, length) if length > 0 else b""


def read_forward(log: LogBytes, start: int = 0) -> Iterator[bytes]:
    """The bytes from `start` to the end, in chunks; nothing when the log is absent."""
    chunk = log.chunk
    while piece := log.read(start, chunk):
        yield piece
        if len(piece) < chunk:  # a short chunk is the last one, so save a request
            return
        start += len(piece)


def _last_lines(data: bytes, start: int, lines: int) -> tuple[int, bytes]:
    """(offset, bytes) of the last `lines` lines of `data`, which begins at `start` and holds more."""
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
    return start + at + 1, data[at + 1 :]
