"""Reads local files for an upload, whole or in parts, and notices changes during the read."""

from __future__ import annotations

import hashlib
import os
import stat
import time

from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import LARGE, SourceChanged
from gofer.transfer.ordered_gate import OrderedGate
from gofer.transfer.walk import describe

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # O_NONBLOCK: opening a pipe must not block
TICK_S = 0.02  # twice the resolution of the slowest kernel clock
_LOOKS = 10


class BecameLarge(Exception):
    """A file has become large since the walk found it small."""


def read_small(
    path: str, entry: FileEntry, into: bytearray | None = None
) -> tuple[bytes | memoryview, FileEntry]:
    """The bytes of a file, and its present entry. `into` is a buffer of LARGE bytes for the bytes.

    Raises SourceChanged when the file changes during the read, BecameLarge when it has become large, and
    OSError.
    """
    file = os.open(path, _READ)
    try:
        before = _settled_status(file)
        size = before.st_size
        if size >= LARGE:
            raise BecameLarge
        data: bytes | memoryview = os.read(file, size + 1) if into is None else b""
        if len(data) != size:
            data = _read_on(file, data, memoryview(bytearray(LARGE) if into is None else into)[: size + 1])
        # `size + 1` was requested above, so a file that has grown is noticed even with the same time.
        if len(data) != size or mark(os.fstat(file)) != mark(before):
            raise SourceChanged("it changed while it was being read")
    finally:
        os.close(file)
    return data, describe(entry.path, before)


def _read_on(file: int, begun: bytes | memoryview, into: memoryview) -> memoryview:
    """The bytes read so far and the rest, which some network file systems return in pieces."""
    done = len(begun)
    into[:done] = begun
    while got := os.readv(file, [into[done:]]):
        done += got
    return into[:done]


def _settled_status(file: int) -> os.stat_result:
    """The status of the file, taken when any later write changes its time; SourceChanged if it never is.

    File times have the resolution of the kernel's clock. Within one tick, a write would not change the time.
    """
    for _ in range(_LOOKS):
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise SourceChanged("it is no longer a file")
        if not 0 <= time.time() - found.st_mtime < TICK_S:
            return found
        time.sleep(TICK_S)
    raise SourceChanged("another process is writing to it")


def mark(found: os.stat_result) -> tuple[int, int, int, int]:
    """Values of which at least one differs after any write to the file."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class FileParts:
    """A file that many threads read in parts, while its MD5 is computed."""

    def __init__(self, path: str, entry: FileEntry) -> None:
        self._file = os.open(path, _READ)
        try:
            self._seen = _settled_status(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self.entry = describe(entry.path, self._seen)
        self.size = self._seen.st_size
        self.identity = ":".join(map(str, mark(self._seen)))
        self._digest = hashlib.md5(usedforsecurity=False)
        self._taking, self._hashing = OrderedGate(), OrderedGate()

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """A buffer with these bytes. `number` counts the parts, and each part must be read once.

        Threads get buffers in the order of the parts: otherwise later parts could take all memory while an
        earlier part waits for it. Buffers are filled at the same time and hashed in the order of the parts.
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
                raise SourceChanged("it became shorter while it was being read")
            done += got

    def md5(self) -> bytes | None:
        """The MD5 of the whole file, after every part was read; SourceChanged when the file changed
        meanwhile.
        """
        if mark(os.fstat(self._file)) != mark(self._seen):
            raise SourceChanged("it changed while it was being read")
        return self._digest.digest()

    def close(self) -> None:
        os.close(self._file)
