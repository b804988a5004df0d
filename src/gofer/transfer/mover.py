"""The contract between the engine and the three directions: upload, download, copy between stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gofer.errors import StoreError
from gofer.transfer.entries import FileEntry

# From here on a file goes in parts.
LARGE = 8 << 20
# From here on it travels in one of the few buffers that all share.
MIDDLING = 1 << 20

# Told the bytes that have arrived, as they do; negative when they count no more.
Arrived = Callable[[int], None]


class SourceChanged(StoreError):
    """The source changed while it was read, and nothing of it was put in place."""


class InParts(Protocol):
    """A large file on its way. `do` is called once for each part, begun in order, by many threads."""

    parts: int

    def do(self, part: int) -> None:
        """Move one part."""

    def finish(self) -> None:
        """Put the whole in place, after every part was done. SourceChanged when it would be torn."""

    def abandon(self) -> None:
        """Let go after a failure; what can be resumed later stays."""


def in_one_thread(file: InParts) -> None:
    """Move a large file where only one thread is at hand."""
    try:
        for part in range(file.parts):
            file.do(part)
        file.finish()
    except BaseException:
        file.abandon()
        raise


class Mover(Protocol):
    """Moves single files. Any thread; raises OSError and the StoreError family."""

    def small(self, entry: FileEntry) -> None:
        """Move a file of less than LARGE bytes."""

    def large(self, entry: FileEntry, arrived: Arrived) -> InParts:
        """Begin, or go on with, a larger one."""

    def delete(self, entries: list[FileEntry]) -> None:
        """Remove files of the destination."""

    def close(self) -> None:
        """After the last file, unless it was interrupted."""
