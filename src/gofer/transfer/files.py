"""Local files as they are read for an upload: whole, in parts, and never torn."""

from __future__ import annotations

import hashlib
import os
import stat
import time

from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import LARGE, SourceChanged
from gofer.transfer.ordered_gate import Turns
from gofer.transfer.walk import describe

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # not blocking, should it have become a pipe
TICK_S = 0.02  # twice what the slowest kernel clock takes to move on
_LOOKS = 10


class Grown(Exception):
    """A file that was small when it was looked at is large now."""


def read_small(
    path: str, entry: FileEntry, into: bytearray | None = None
) -> tuple[bytes | memoryview, FileEntry]:
    """The bytes, in the buffer of LARGE bytes if there is one, and what the file is now.

    SourceChanged when it was written to meanwhile; Grown; OSError.
    """
    file = os.open(path, _READ)
    try:
        before = _look(file)
        size = before.st_size
        if size >= LARGE:
            raise Grown
        data: bytes | memoryview = os.read(file, size + 1) if into is None else b""
        if len(data) != size:
            data = _read_on(file, data, memoryview(bytearray(LARGE) if into is None else into)[: size + 1])
        if len(data) != size or mark(os.fstat(file)) != mark(before):
            raise SourceChanged("it was written to while it was read")
    finally:
        os.close(file)
    return data, describe(entry.path, before)


def _read_on(file: int, begun: bytes | memoryview, into: memoryview) -> memoryview:
    """What was read so far and the rest; some network file systems give it in pieces."""
    done = len(begun)
    into[:done] = begun
    while got := os.readv(file, [into[done:]]):
        done += got
    return into[:done]


def _look(file: int) -> os.stat_result:
    """The status of the file at a moment after which any write changes its time; else SourceChanged."""
    for _ in range(_LOOKS):
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise SourceChanged("it is no longer a file")
        if not 0 <= time.time() - found.st_mtime < TICK_S:
            return found
        time.sleep(TICK_S)
    raise SourceChanged("it is being written to")


def mark(found: os.stat_result) -> tuple[int, int, int, int]:
    """What differs after any write to the file."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class FileParts:
    """A file read in parts by many threads, while its MD5 is computed on the way."""

    def __init__(self, path: str, entry: FileEntry) -> None:
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
        self._taking, self._hashing = Turns(), Turns()

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """A buffer with these bytes. Parts are counted by `number`, and each must be read once.

        Buffers are given out in their order, else those in front could wait for those behind. They are
        filled side by side, and hashed in their order again.
        """
        try:
            buffer = self._load(number, start, size, budget)
        except BaseException:
            with self._hashing.turn(number):
                raise
        with self._hashing.turn(number):
            self._digest.update(memoryview(buffer)[:size])
        return buffer

    def _load(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        with self._taking.turn(number):
            buffer = budget.buffer(size)
        try:
            self._fill(start, memoryview(buffer)[:size])
        except BaseException:
            budget.release(buffer)
            raise
        return buffer

    def _fill(self, start: int, into: memoryview) -> None:
        done = 0
        while done < len(into):
            got = os.preadv(self._file, [into[done:]], start + done)
            if not got:
                raise SourceChanged("it became shorter while it was read")
            done += got

    def md5(self) -> bytes | None:
        """The MD5 of the whole, once every part was read; SourceChanged when it was written to meanwhile."""
        if mark(os.fstat(self._file)) != mark(self._seen):
            raise SourceChanged("it was written to while it was read")
        return self._digest.digest()

    def close(self) -> None:
        os.close(self._file)
