"""Reads one version of a large object in ranges, by several threads."""

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
    """Implements `blocks.Parts`. `entry` describes the version of the object to read."""

    def __init__(self, store: Store, key: str, entry: FileEntry) -> None:
        self.entry = entry
        self.size = entry.size
        self._store = store
        self._key = key
        self._reads = store if isinstance(store, ReadsInto) and entry.etag else None
        words = f"{store.url}\n{key}\n{entry.etag}\n{entry.mtime_ns}\n{entry.size}"
        self.identity = hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:24]

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """As `blocks.Parts.read`; parts may be read in any order."""
        buffer = budget.buffer(size)
        try:
            self._fill(start, memoryview(buffer)[:size])
        except BaseException:
            budget.release(buffer)
            raise
        return buffer

    def md5(self) -> bytes | None:
        """The MD5 that the store knows. SourceChanged when the object was replaced during the read."""
        if self._reads is None:
            info = self._store.head(self._key)
            if info is None or not _is_version(to_entry("", info), self.entry):
                raise SourceChanged("it was replaced while it was being read")
        return self.entry.md5

    def close(self) -> None:
        pass

    def _fill(self, start: int, into: memoryview) -> None:
        if self._reads:
            got = self._reads.read_into(self._key, start, into, etag=self.entry.etag)
        else:
            got = self._fill_in_pieces(start, into)
        if got != len(into):
            raise SourceChanged("it became shorter while it was being read")

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
    """The error for bytes that do not have the size or MD5 that the store reports."""
    return StoreError(f"the received bytes of {path!r} are not those that the store reports")


def _is_version(found: FileEntry, known: FileEntry) -> bool:
    if known.etag:
        return found.etag == known.etag
    return (found.mtime_ns, found.size) == (known.mtime_ns, known.size)
