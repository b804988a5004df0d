"""The contract between the executor and the three directions: upload, download, copy between stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gofer.errors import StoreError
from gofer.transfer.entries import FileEntry

# Files of this size and more are moved in parts.
LARGE = 8 << 20
# Files of this size and more use one of the large shared buffers.
MIDDLING = 1 << 20

# Called with the number of bytes that have arrived; with a negative number when they must be moved again.
Arrived = Callable[[int], None]


class SourceChanged(StoreError):
    """The source changed while it was being read. Nothing was written under its final name."""


class LargeTransfer(Protocol):
    """A large file in progress. Many threads call `move_part`, once for each part; parts begin in order."""

    parts: int

    def move_part(self, part: int) -> None:
        """Move one part. Blocking."""

    def finish(self) -> None:
        """Make the file complete, after all its parts.

        SourceChanged when the parts are of different versions.
        """

    def abandon(self) -> None:
        """Release the file after a failure. Keeps what a later run can use."""


def in_one_thread(file: LargeTransfer) -> None:
    """Move a large file in the calling thread."""
    try:
        for part in range(file.parts):
            file.move_part(part)
        file.finish()
    except BaseException:
        file.abandon()
        raise


class Mover(Protocol):
    """Moves single files in one direction. Any thread may call; raises OSError and the StoreError family."""

    def move_small(self, entry: FileEntry) -> None:
        """Move a file of less than LARGE bytes. Blocking."""

    def begin_large(self, entry: FileEntry, arrived: Arrived) -> LargeTransfer:
        """Begin a larger file, or continue one that an earlier run began."""

    def delete(self, entries: list[FileEntry]) -> None:
        """Remove files of the destination."""

    def close(self) -> None:
        """Clean up. Called after the last file, but not after an interruption."""
