"""Copies objects from store to store: by the services themselves where they can, else through memory."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gofer.storage.base import Blocks, CopiesFrom, Hashes
from gofer.transfer.budget import Budget
from gofer.transfer.endpoints import StoreEnd
from gofer.transfer.entries import FileEntry, to_metadata
from gofer.transfer.mover import Arrived, LargeTransfer
from gofer.transfer.object_upload import BlockDestination, BlockUpload, StreamUpload
from gofer.transfer.objects import ObjectParts, damaged


class Relay:
    """Implements `mover.Mover`. Nothing is written to the disk."""

    def __init__(self, source: StoreEnd, destination: StoreEnd, budget: Budget, state: Path | None) -> None:
        self._source = source
        self._end = destination
        self._store = destination.store
        self._within = source.store is destination.store
        # After a service could not fetch one object, the others are copied through memory at once.
        self._may_ask = True
        self._budget = budget
        self._state = state

    def move_small(self, entry: FileEntry) -> None:
        if self._by_the_service(entry):
            return
        data = self._source.store.get(self._source.key(entry.path))
        md5 = hashlib.md5(data, usedforsecurity=False).digest()
        if len(data) != entry.size or (entry.md5 or md5) != md5:
            entry = self._source.current_entry(entry)
            if len(data) != entry.size or (entry.md5 or md5) != md5:
                raise damaged(entry.path)
        key = self._end.key(entry.path)
        if isinstance(self._store, Hashes):
            self._store.put_hashed(key, data, md5=md5, metadata=to_metadata(_dated(entry)))
        else:
            self._store.put(key, data)

    def begin_large(self, entry: FileEntry, arrived: Arrived) -> LargeTransfer:
        if self._by_the_service(entry):
            arrived(entry.size)
            return _Copied()
        now = _dated(self._source.current_entry(entry))
        source = ObjectParts(self._source.store, self._source.key(entry.path), now)
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

    def _by_the_service(self, entry: FileEntry) -> bool:
        source, key = self._source.key(entry.path), self._end.key(entry.path)
        if self._within:
            self._store.copy(source, key)
            return True
        if self._may_ask and isinstance(self._store, CopiesFrom):
            if self._store.copy_from(self._source.store, source, key):
                return True
            self._may_ask = False
        return False


def _dated(entry: FileEntry) -> FileEntry:
    """The entry with its time as recorded: the arrival in the first store is the best known age of the
    content.
    """
    return entry._replace(recorded=True)


class _Copied:
    """A large object that the service has already copied; implements `mover.LargeTransfer`."""

    parts = 0

    def move_part(self, part: int) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...
