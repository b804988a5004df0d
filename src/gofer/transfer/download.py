"""Downloads objects of a store to a folder of this machine; a large object in ranges, several at a time.

The unfinished file survives the process: the bytes are followed by one byte for each block that says whether
the block is complete. Bytes and marks are in one file, so that they cannot be separated. After the last block
the marks are cut off and the file gets its final name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress

from gofer.storage.base import ReadsInto, Store
from gofer.transfer.atomic_download import DownloadFolder, FolderInTheWay, place, remove_leftover
from gofer.transfer.budget import Budget
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import LARGE, MIDDLING, Arrived, LargeTransfer, SourceChanged
from gofer.transfer.objects import ObjectParts, damaged

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

    def block_range(self, number: int) -> tuple[int, int]:
        """The start of a block, and its size."""
        start = number * self._block
        return start, min(self._block, self._size - start)

    def write(self, number: int, data: memoryview, *, hashing: bool) -> None:
        """Write a block, which then survives the process. `hashing` says that `md5` will be called."""
        start, _ = self.block_range(number)
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
            start, size = self.block_range(self._hashed)
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


class RangeDownload:
    """The download of one file; implements `mover.LargeTransfer`."""

    def __init__(
        self,
        store: Store,
        key: str,
        entry: FileEntry,
        download_folder: DownloadFolder,
        budget: Budget,
        arrived: Arrived,
    ) -> None:
        self._object = ObjectParts(store, key, entry)
        self._entry = entry
        self._folder = download_folder
        self._budget = budget
        self._arrived = arrived
        self._file, self.part_name = download_folder.open_part(entry.path, self._object.identity)
        try:
            self._part = PartFile(self._file, entry.size, LARGE)
        except BaseException:
            os.close(self._file)
            raise
        self._missing = self._part.missing()
        self.parts = len(self._missing)
        self._counted = [entry.size - sum(self._part.block_range(number)[1] for number in self._missing)]
        arrived(self._counted[0])

    def move_part(self, part: int) -> None:
        number = self._missing[part]
        start, size = self._part.block_range(number)
        buffer = self._object.read(number, start, size, self._budget)
        try:
            self._part.write(number, memoryview(buffer)[:size], hashing=self._entry.md5 is not None)
        finally:
            self._budget.release(buffer)
        self._counted.append(size)
        self._arrived(size)

    def finish(self) -> None:
        md5 = self._object.md5()
        if md5 is not None and self._part.md5() != md5:
            # A damaged download must not be continued later.
            os.unlink(self.part_name)
            raise damaged(self._entry.path)
        self._part.trim()
        if self._entry.executable:
            mode = stat.S_IMODE(os.fstat(self._file).st_mode)
            # Executable for every user with read access, which the umask decides.
            os.fchmod(self._file, mode | (mode & 0o444) >> 2)
        os.utime(self._file, ns=(self._entry.mtime_ns, self._entry.mtime_ns))
        place(self.part_name, self._folder.target(self._entry.path))
        os.close(self._file)

    def abandon(self) -> None:
        self._arrived(-sum(self._counted))
        os.close(self._file)


class Download:
    """Implements `mover.Mover`.

    `left` are unfinished files of earlier runs, as paths below the destination.
    """

    def __init__(
        self, source: StoreEnd, destination: LocalEnd, budget: Budget, left: Iterable[str] = ()
    ) -> None:
        self._source = source
        self._store = source.store
        self._root = os.fspath(destination.path)
        self._folder = DownloadFolder(self._root)
        self._budget = budget
        self._left = left
        self._kept: set[str] = set()

    def move_small(self, entry: FileEntry) -> None:
        if not entry.size:
            self._empty(entry)
        elif entry.size < MIDDLING or not isinstance(self._store, ReadsInto):
            self._write(entry, self._store.get(self._source.key(entry.path)))
        else:
            self._write_buffered(entry, self._store)

    def _write_buffered(self, entry: FileEntry, store: ReadsInto) -> None:
        buffer = self._budget.buffer(LARGE)
        try:
            got = store.read_into(self._source.key(entry.path), 0, memoryview(buffer))
            # A full buffer means that the object may be larger than the buffer.
            if got == len(buffer):
                raise SourceChanged("it was replaced by a larger one")
            self._write(entry, memoryview(buffer)[:got])
        finally:
            self._budget.release(buffer)

    def _write(self, entry: FileEntry, data: bytes | memoryview) -> None:
        """Write the file if the data match the listing, or else if they match the object as it is now."""
        if not _is_right(data, entry):
            entry = self._source.current_entry(entry)
            if not _is_right(data, entry):
                raise damaged(entry.path)
        self._folder.write(entry.path, data, entry.mtime_ns, executable=entry.executable)

    def begin_large(self, entry: FileEntry, arrived: Arrived) -> LargeTransfer:
        now = self._source.current_entry(entry)
        key = self._source.key(entry.path)
        file = RangeDownload(self._store, key, now, self._folder, self._budget, arrived)
        self._kept.add(file.part_name)
        return file

    def delete(self, entries: list[FileEntry]) -> None:
        for entry in entries:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._root, entry.path))
            self._remove_empty(os.path.dirname(entry.path))

    def close(self) -> None:
        """Remove what killed processes left, except unfinished files that a later run of this transfer can
        use.
        """
        for path in self._left:
            part = os.path.join(self._root, path)
            if part not in self._kept:
                remove_leftover(part)

    def _empty(self, entry: FileEntry) -> None:
        """Write an empty file without a request.

        Ignores a folder of that name: some tools mark a folder by an empty object with its name.
        """
        with suppress(FolderInTheWay):
            self._folder.write(entry.path, b"", entry.mtime_ns, executable=entry.executable)

    def _remove_empty(self, folder: str) -> None:
        while folder:
            try:
                os.rmdir(os.path.join(self._root, folder))
            except OSError:
                return
            folder = os.path.dirname(folder)


def _is_right(data: bytes | memoryview, entry: FileEntry) -> bool:
    if len(data) != entry.size:
        return False
    return entry.md5 is None or hashlib.md5(data, usedforsecurity=False).digest() == entry.md5
