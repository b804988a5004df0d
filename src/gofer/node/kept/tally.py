"""Count how many bytes the rows of a group have kept together, so that two rows never take the same bytes.

Rows that share a disk use a number in a file with a lock. Rows that run on nodes of their own use a number in
an object of the store, which is changed by compare and swap. So the limit of the group holds exactly, and a
row that keeps little leaves the rest to the others. An object costs two reads and one write for each row that
has files to keep.
"""

from __future__ import annotations

import fcntl
import os
import random
from typing import Optional, Tuple

from gofer.core.retry import retry
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectNotFound, ObjectsError, VersionMismatch

# How long a row tries to update the number: rows that end at the same moment compete for it.
_LONGEST_S = 10.0
_LONGEST_PAUSE_S = 1.0


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


class StoreTally(ByteTally):
    """The counter for a group of `rows` rows.

    Blocks for ten seconds at most. A row that cannot count by then, because the store does not answer or too
    many rows end at once, gets its even share of `most`.
    """

    def __init__(self, objects: ObjectService, key: str, rows: int) -> None:
        self._objects = objects
        self._key = key
        self._rows = max(rows, 1)

    def take(self, size: int, most: int, *, whole: bool) -> int:
        def add() -> int:
            total, version = self._read()
            added = share_of(size, most - total, whole=whole)
            if added:
                self._objects.put(self._key, b"%d" % (total + added), new=version is None, etag=version)
            return added

        lost_race = (ObjectNotFound, VersionMismatch, Exists)
        try:
            return retry(add, errors=lost_race, pause_s=_random_pause_s, patience_s=_LONGEST_S)
        except (ObjectsError, ValueError):
            return share_of(size, most // self._rows, whole=whole)

    def _read(self) -> Tuple[int, Optional[str]]:
        """The number and its version. The version is read first, so that a change between the two reads makes
        the write fail.
        """
        info = self._objects.head(self._key)
        return (0, None) if info is None else (int(self._objects.get(self._key)), info.etag)


def _random_pause_s(error: ObjectsError, failures: int) -> float:
    return random.uniform(0, min(0.05 * 2 ** (failures - 1), _LONGEST_PAUSE_S))


def share_of(size: int, left: int, *, whole: bool) -> int:
    """How much of `size` may be taken when `left` bytes are left. With `whole`, all of it or nothing."""
    if whole and size > left:
        return 0
    return max(min(size, left), 0)
