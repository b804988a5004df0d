"""Count how many bytes the rows of a group have kept together, so that two rows never take the same bytes.

Rows that share a disk use a file with a lock. For rows on nodes of their own, see
gofer.node.azure.store_tally.
"""

from __future__ import annotations

import fcntl
import os


class ByteTally:
    """A number of bytes that only grows."""

    def take(self, size: int, most: int, *, whole: bool) -> int:
        """Add up to `size` bytes while the number stays within `most`; how many were added.

        With `whole`, all of them or none.
        """
        raise NotImplementedError


class FileTally(ByteTally):
    """A number in a file that all rows share. OSError when the file cannot be written."""

    def __init__(self, path: str) -> None:
        self.path = path

    def take(self, size: int, most: int, *, whole: bool) -> int:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            total = int(os.pread(fd, 32, 0) or b"0")
            added = share_of(size, most - total, whole=whole)
            if added:
                os.pwrite(fd, b"%032d" % (total + added), 0)
            return added
        finally:
            os.close(fd)


def share_of(size: int, left: int, *, whole: bool) -> int:
    """How much of `size` may be taken when `left` bytes are left. With `whole`, all of it or nothing."""
    if whole and size > left:
        return 0
    return max(min(size, left), 0)
