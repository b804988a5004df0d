"""A large download on disk: the bytes, followed by one byte for each block that says whether it is complete.

Bytes and marks are in one file, so that they cannot be separated. After the last block the marks are cut off
and the file gets its final name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading

_PIECE = 1 << 20
# For larger writes, Linux needs larger pieces of memory, which are slow to get in many virtual machines.
_WRITTEN_AT_ONCE = 1 << 17
_DONE = b"\1"
_PATIENCE_S = 0.5


class PartFile:
    """The unfinished file with the descriptor `file`, which will have `size` bytes. Raises OSError."""

    def __init__(self, file: int, size: int, block: int) -> None:
        self.file = file
        self._size = size
        self._block = block
        self._marks = bytearray(self._load(-(-size // block)))
        self._digest = hashlib.md5(usedforsecurity=False)
        self._hashed = 0
        self._turns = threading.Condition()
        self._hasher: int | None = None

    def missing(self) -> list[int]:
        """The numbers of the blocks that are not complete yet."""
        return [number for number, mark in enumerate(self._marks) if not mark]

    def span(self, number: int) -> tuple[int, int]:
        """The start of a block, and its size."""
        start = number * self._block
        return start, min(self._block, self._size - start)

    def write(self, number: int, data: memoryview, *, hashing: bool) -> None:
        """Write a block, which then survives the process. `hashing` says that `md5` will be called."""
        start, _ = self.span(number)
        rest = data
        while rest:
            written = os.pwrite(self.file, rest[:_WRITTEN_AT_ONCE], start)
            rest, start = rest[written:], start + written
        # After the bytes: a mark without its bytes would leave a hole in the file.
        os.pwrite(self.file, _DONE, self._size + number)
        if hashing and self._await_turn(number):
            self._hash()
            self._digest.update(data)
            self._hashed = number + 1
        with self._turns:
            self._marks[number] = 1
            if self._hasher == number:
                self._hasher = None
            self._turns.notify_all()

    def _await_turn(self, number: int) -> bool:
        """Whether the block can be hashed from memory, because those before it are complete within half a
        second.

        If not, it is read from the file later. Waiting longer could be a deadlock: the thread that fetches an
        earlier block may wait for the memory that this block holds.
        """
        with self._turns:
            if not self._turns.wait_for(lambda: self._is_next(number), timeout=_PATIENCE_S):
                return False
            self._hasher = number
            return True

    def _is_next(self, number: int) -> bool:
        return self._hasher is None and all(self._marks[self._hashed : number])

    def md5(self) -> bytes:
        """The MD5 of the whole file, when every block is complete."""
        self._hash()
        return self._digest.digest()

    def trim(self) -> None:
        """Remove the marks: the file is complete."""
        os.ftruncate(self.file, self._size)

    def _hash(self) -> None:
        buffer = memoryview(bytearray(min(_PIECE, self._block)))
        while self._hashed < len(self._marks) and self._marks[self._hashed]:
            start, size = self.span(self._hashed)
            end = start + size
            while start < end:
                got = os.preadv(self.file, [buffer[: end - start]], start)
                if not got:
                    raise OSError(errno.EIO, "an unfinished download became shorter")
                self._digest.update(buffer[:got])
                start += got
            self._hashed += 1

    def _load(self, blocks: int) -> bytes:
        found = os.fstat(self.file).st_size
        if found == self._size:  # an earlier process was killed after `trim`, before the file got its name
            os.ftruncate(self.file, self._size + blocks)
            os.pwrite(self.file, _DONE * blocks, self._size)
            return _DONE * blocks
        if found == self._size + blocks:
            return os.pread(self.file, blocks, self._size)
        # A full disk is reported now, and not after hours of a download.
        self._check_room()
        # First to zero, so that no bytes of an older content remain.
        os.ftruncate(self.file, 0)
        os.ftruncate(self.file, self._size + blocks)
        return bytes(blocks)

    def _check_room(self) -> None:
        room = os.fstatvfs(self.file)
        if room.f_bavail * room.f_frsize < self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
