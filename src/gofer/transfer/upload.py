"""Uploads files of this machine to a store.

Reads each file whole or in parts, and notices changes during the read. A file that changes is never stored
as if it were complete.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gofer.storage.base import Blocks, Hashes
from gofer.transfer.budget import Budget
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry, to_metadata
from gofer.transfer.mover import LARGE, MIDDLING, Arrived, LargeTransfer, SourceChanged, in_one_thread
from gofer.transfer.object_upload import BlockDestination, BlockUpload, StreamUpload
from gofer.transfer.walk import describe

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # O_NONBLOCK: opening a pipe must not block
TICK_S = 0.02  # twice the resolution of the slowest kernel clock
_LOOKS = 10


class BecameLarge(Exception):
    """A file that was small when its folder was listed is large now."""


def read_small(
    path: str, entry: FileEntry, into: bytearray | None = None
) -> tuple[bytes | memoryview, FileEntry]:
    """The bytes of a file, and an entry with the file's present size and time. With `into`, a buffer of LARGE
    bytes, the result may be a view of the buffer.

    Raises SourceChanged when the file changes during the read, BecameLarge when it has become large, and
    OSError.
    """
    file = os.open(path, _READ)
    try:
        before = _stable_status(file)
        size = before.st_size
        if size >= LARGE:
            raise BecameLarge
        data: bytes | memoryview = os.read(file, size + 1) if into is None else b""
        if len(data) != size:
            data = _read_on(file, data, memoryview(bytearray(LARGE) if into is None else into)[: size + 1])
        # The read asked for `size + 1` bytes, so a file that has grown is noticed even with the same time.
        if len(data) != size or change_signature(os.fstat(file)) != change_signature(before):
            raise SourceChanged("it changed while it was being read")
    finally:
        os.close(file)
    return data, describe(entry.path, before)


def _read_on(file: int, begun: bytes | memoryview, into: memoryview) -> memoryview:
    """Read the rest of a file. Some network file systems return the bytes of one read in pieces."""
    done = len(begun)
    into[:done] = begun
    while got := os.readv(file, [into[done:]]):
        done += got
    return into[:done]


def _stable_status(file: int) -> os.stat_result:
    """The status of the file, taken at a moment after which every write changes the file's time.

    File times have the resolution of the kernel's clock, so two writes within one tick can leave the same
    time. The function therefore waits until the last write is older than TICK_S. SourceChanged when the file
    is written to all the time, or is no regular file.
    """
    for _ in range(_LOOKS):
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise SourceChanged("it is no longer a file")
        if not 0 <= time.time() - found.st_mtime < TICK_S:
            return found
        time.sleep(TICK_S)
    raise SourceChanged("another process is writing to it")


def change_signature(found: os.stat_result) -> tuple[int, int, int, int]:
    """Values of which at least one changes with every write that follows `_stable_status`."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class FileParts:
    """A file that many threads read in parts, while its MD5 is computed."""

    def __init__(self, path: str, entry: FileEntry) -> None:
        self._file = os.open(path, _READ)
        try:
            self._seen = _stable_status(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self.entry = describe(entry.path, self._seen)
        self.size = self._seen.st_size
        self.identity = ":".join(map(str, change_signature(self._seen)))
        self._digest = hashlib.md5(usedforsecurity=False)
        self._taking, self._hashing = OrderedGate(), OrderedGate()

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """Read one part of the file; a buffer that begins with these bytes. The caller releases the buffer.

        Parts are numbered from 0, and each number must be read exactly once, or later parts wait for ever.
        Threads get buffers in the order of the parts: otherwise later parts could take all memory while an
        earlier part waits for memory. The parts are read in parallel and hashed in their order.
        """
        try:
            buffer = self._load(number, start, size, budget)
        except BaseException:
            with self._hashing.turn(number):  # a failed part takes its turn too, or later parts wait for ever
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
        """The MD5 of the whole file. Call this after all parts were read. SourceChanged when the file changed
        meanwhile.
        """
        if change_signature(os.fstat(self._file)) != change_signature(self._seen):
            raise SourceChanged("it changed while it was being read")
        return self._digest.digest()

    def close(self) -> None:
        os.close(self._file)


class OrderedGate:
    """A gate for threads with numbers from 0. Every number must pass once, or later numbers wait for ever."""

    def __init__(self) -> None:
        self._next = 0
        self._lock = threading.Lock()
        self._waiting: dict[int, threading.Event] = {}

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait for the numbers before this one; later numbers wait until the block ends."""
        self._await(number)
        try:
            yield
        finally:
            self._pass_on()

    def _await(self, number: int) -> None:
        with self._lock:
            if number == self._next:
                return
            gate = self._waiting[number] = threading.Event()
        gate.wait()

    def _pass_on(self) -> None:
        """Wake the thread with the next number, and no other."""
        with self._lock:
            self._next += 1
            gate = self._waiting.pop(self._next, None)
        if gate:
            gate.set()


class Upload:
    """Implements `mover.Mover`. Where the service can, it compares the received bytes with an MD5."""

    def __init__(self, source: LocalEnd, destination: StoreEnd, budget: Budget, state: Path | None) -> None:
        self._root = os.fspath(source.path)
        self._end = destination
        self._store = destination.store
        self._hashes = self._store if isinstance(self._store, Hashes) else None
        self._budget = budget
        self._state = state

    def move_small(self, entry: FileEntry) -> None:
        try:
            if entry.size < MIDDLING:
                self._put(*read_small(self._path(entry), entry))
            else:
                self._put_buffered(entry)
        except BecameLarge:
            in_one_thread(self.begin_large(entry, lambda size: None))

    def begin_large(self, entry: FileEntry, arrived: Arrived) -> LargeTransfer:
        source = FileParts(self._path(entry), entry)
        key = self._end.key(entry.path)
        if not isinstance(self._store, Blocks):
            return StreamUpload(source, self._store, key, self._budget, arrived)
        url = f"{self._store.url}\n{key}"
        return BlockUpload(
            source, BlockDestination(self._store, key, url, self._state), self._budget, arrived
        )

    def delete(self, entries: list[FileEntry]) -> None:
        self._store.delete([self._end.key(entry.path) for entry in entries])

    def close(self) -> None:
        pass

    def _put_buffered(self, entry: FileEntry) -> None:
        buffer = self._budget.buffer(LARGE)
        try:
            self._put(*read_small(self._path(entry), entry, buffer))
        finally:
            self._budget.release(buffer)

    def _put(self, data: bytes | memoryview, now: FileEntry) -> None:
        key = self._end.key(now.path)
        if self._hashes:
            md5 = hashlib.md5(data, usedforsecurity=False).digest()
            self._hashes.put_hashed(key, data, md5=md5, metadata=to_metadata(now))
        else:
            self._store.put(key, bytes(data))

    def _path(self, entry: FileEntry) -> str:
        return f"{self._root}/{entry.path}" if entry.path else self._root
