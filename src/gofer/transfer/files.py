"""Local files as they are read for an upload: whole, in parts, and never torn."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time

from gofer.transfer.budget import Budget
from gofer.transfer.entries import Entry
from gofer.transfer.mover import Changed
from gofer.transfer.walk import describe

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # not blocking, should it have become a pipe
_PIECE = 1 << 20
_TICK_S = 0.02  # twice what the slowest kernel clock takes to move on
_LOOKS = 10


def read_small(path: str, entry: Entry) -> tuple[bytes, Entry]:
    """The bytes, and what the file is now. Changed when it was written to meanwhile; OSError."""
    file = os.open(path, _READ)
    try:
        before = _look(file)
        data = os.read(file, before.st_size + 1)
        while data and len(data) < before.st_size and (more := os.read(file, before.st_size + 1 - len(data))):
            data += more
        if len(data) != before.st_size or mark(os.fstat(file)) != mark(before):
            raise Changed("it was written to while it was read")
    finally:
        os.close(file)
    return data, describe(entry.path, before)


def _look(file: int) -> os.stat_result:
    """What the file is, at a moment when any later write would show in its time; Changed when none comes."""
    for _ in range(_LOOKS):
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise Changed("it is no file any more")
        if not 0 <= time.time() - found.st_mtime < _TICK_S:
            return found
        time.sleep(_TICK_S)
    raise Changed("it is being written to")


def mark(found: os.stat_result) -> tuple[int, int, int, int]:
    """What differs after any write to the file."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class FileParts:
    """A file read in parts by many threads, in order, since its MD5 is computed on the way."""

    def __init__(self, path: str, entry: Entry) -> None:
        self._file = os.open(path, _READ)
        try:
            self._seen = _look(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self.entry = describe(entry.path, self._seen)
        self.size = self._seen.st_size
        self.identity = ":".join(map(str, mark(self._seen)))
        self._digest = hashlib.md5(usedforsecurity=False)
        self._next = 0
        self._turn = threading.Condition()

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """A buffer with these bytes. Parts are counted by `number`; each waits for those before.

        The buffer is taken when its turn has come: else those in front could wait for those behind.
        """
        with self._turn:
            while self._next != number:
                self._turn.wait()
        buffer = budget.buffer(size)
        try:
            self._fill(start, memoryview(buffer)[:size])
        except BaseException:
            budget.release(buffer, size)
            raise
        finally:
            with self._turn:
                self._next += 1
                self._turn.notify_all()
        return buffer

    def _fill(self, start: int, into: memoryview) -> None:
        done = 0
        while done < len(into):
            piece = into[done : done + _PIECE]  # hashed while the processor's cache still has it
            got = os.preadv(self._file, [piece], start + done)
            if not got:
                raise Changed("it became shorter while it was read")
            self._digest.update(piece[:got])
            done += got

    def md5(self) -> bytes | None:
        """The MD5 of the whole, once every part was read; Changed when it was written to meanwhile."""
        if mark(os.fstat(self._file)) != mark(self._seen):
            raise Changed("it was written to while it was read")
        return self._digest.digest()

    def close(self) -> None:
        os.close(self._file)
