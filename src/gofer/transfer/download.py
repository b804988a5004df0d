"""Downloads objects of a store to a folder of this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress

from gofer.storage.base import ReadsInto
from gofer.transfer.atomic_download import DownloadFolder, FolderInTheWay, remove_left
from gofer.transfer.budget import Budget
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import LARGE, MIDDLING, Arrived, InParts, SourceChanged
from gofer.transfer.objects import damaged
from gofer.transfer.ranges import RangeDownload


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

    def small(self, entry: FileEntry) -> None:
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
            entry = self._source.look_again(entry)
            if not _is_right(data, entry):
                raise damaged(entry.path)
        self._folder.write(entry.path, data, entry.mtime_ns, executable=entry.executable)

    def large(self, entry: FileEntry, arrived: Arrived) -> InParts:
        now = self._source.look_again(entry)
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
                remove_left(part)

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
