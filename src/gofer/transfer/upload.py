"""Uploads files of this machine to a store."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gofer.storage.base import Blocks, Hashes
from gofer.transfer.attributes import to_metadata
from gofer.transfer.blocks import BlockDestination, BlockUpload
from gofer.transfer.budget import Budget
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry
from gofer.transfer.files import BecameLarge, FileParts, read_small
from gofer.transfer.mover import LARGE, MIDDLING, Arrived, InParts, in_one_thread
from gofer.transfer.stream import StreamUpload


class Upload:
    """Implements `mover.Mover`. Where the service can, it compares the received bytes with an MD5."""

    def __init__(self, source: LocalEnd, destination: StoreEnd, budget: Budget, state: Path | None) -> None:
        self._root = os.fspath(source.path)
        self._end = destination
        self._store = destination.store
        self._hashes = self._store if isinstance(self._store, Hashes) else None
        self._budget = budget
        self._state = state

    def small(self, entry: FileEntry) -> None:
        try:
            if entry.size < MIDDLING:
                self._put(*read_small(self._path(entry), entry))
            else:
                self._put_buffered(entry)
        except BecameLarge:
            in_one_thread(self.large(entry, lambda size: None))

    def large(self, entry: FileEntry, arrived: Arrived) -> InParts:
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
