"""Writes a large object in one request, for stores without uploads in blocks."""

from __future__ import annotations

from collections.abc import Iterator

from gofer.storage.base import Store, Streams
from gofer.transfer.attributes import to_metadata
from gofer.transfer.blocks import Parts
from gofer.transfer.budget import Budget
from gofer.transfer.mover import Arrived

_PIECE = 1 << 20


class StreamUpload:
    """The upload of one object as a single part; implements `mover.InParts`. It cannot be continued later."""

    parts = 1

    def __init__(self, source: Parts, store: Store, key: str, budget: Budget, arrived: Arrived) -> None:
        self._source = source
        self._store = store
        self._key = key
        self._budget = budget
        self._arrived = arrived
        self._moved = 0

    def do(self, part: int) -> None:
        if isinstance(self._store, Streams):
            self._store.put_stream(self._key, self._pieces(), metadata=to_metadata(self._source.entry))
        else:
            self._store.put(self._key, b"".join(self._pieces()))

    def finish(self) -> None:
        self._source.close()

    def abandon(self) -> None:
        self._arrived(-self._moved)
        self._source.close()

    def _pieces(self) -> Iterator[bytes]:
        for number, start in enumerate(range(0, self._source.size, _PIECE)):
            size = min(_PIECE, self._source.size - start)
            buffer = self._source.read(number, start, size, self._budget)
            piece = bytes(memoryview(buffer)[:size])
            self._budget.release(buffer)
            yield piece
            self._moved += size
            self._arrived(size)
        self._source.md5()  # raises when the source changed, so that the store does not complete the object
