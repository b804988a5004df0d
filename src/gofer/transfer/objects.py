"""One version of a large object, read in ranges by several threads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from gofer.errors import StoreError
from gofer.storage.base import ReadsInto, Store, Streams
from gofer.transfer.budget import Budget
from gofer.transfer.endpoints import to_entry
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import SourceChanged


class ObjectParts:
    """See `blocks.Parts`. `entry` is what the object was when it was looked at last."""

    def __init__(self, store: Store, key: str, entry: FileEntry) -> None:
        self.entry = entry
        self.size = entry.size
        self._store = store
        self._key = key
        self._reads = store if isinstance(store, ReadsInto) and entry.etag else None
        words = f"{store.url}\n{key}\n{entry.etag}\n{entry.mtime_ns}\n{entry.size}"
        self.identity = hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:24]

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """In any order; see `blocks.Parts`."""
        buffer = budget.buffer(size)
        try:
            self._fill(start, memoryview(buffer)[:size])
        except BaseException:
            budget.release(buffer)
            raise
        return buffer

    def md5(self) -> bytes | None:
        """As the store knows it. SourceChanged when the object was replaced while it was read."""
        if self._reads is None:
            info = self._store.head(self._key)
            if info is None or not _is_version(to_entry("", info), self.entry):
                raise SourceChanged("it was replaced while it was read")
        return self.entry.md5

    def close(self) -> None:
        pass

    def _fill(self, start: int, into: memoryview) -> None:
        if self._reads:
            got = self._reads.read_into(self._key, start, into, etag=self.entry.etag)
        else:
            got = self._fill_in_pieces(start, into)
        if got != len(into):
            raise SourceChanged("it became shorter while it was read")

    def _fill_in_pieces(self, start: int, into: memoryview) -> int:
        pieces: Iterable[bytes]
        if isinstance(self._store, Streams):
            pieces = self._store.get_stream(self._key, start, len(into))
        else:
            pieces = [self._store.get_range(self._key, start, len(into))]
        got = 0
        for piece in pieces:
            into[got : got + len(piece)] = piece
            got += len(piece)
        return got


def damaged(path: str) -> StoreError:
    """The error for bytes that are not those the store speaks of."""
    return StoreError(f"{path!r} did not arrive as the store has it")


def _is_version(found: FileEntry, known: FileEntry) -> bool:
    if known.etag:
        return found.etag == known.etag
    return (found.mtime_ns, found.size) == (known.mtime_ns, known.size)
