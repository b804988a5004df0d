"""Uploads a large object in blocks, which the service keeps until all are there; or in one stream, to stores
that know no blocks.

For an upload in blocks, this machine keeps a note. After a crash, the service says which blocks it has, and
only the others are sent. A stream starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from gofer.storage.base import Block, BlockRules, Blocks, Store, Streams
from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry, to_metadata
from gofer.transfer.journal import claim
from gofer.transfer.mover import LARGE, Arrived, SourceChanged

_MIB = 1 << 20

_PIECE = 1 << 20


class Parts(Protocol):
    """A source of bytes. `identity` is different whenever the content may be."""

    entry: FileEntry
    size: int
    identity: str

    def read(self, number: int, start: int, size: int, budget: Budget) -> bytearray:
        """These bytes, in a buffer of the budget. Blocking."""

    def md5(self) -> bytes | None:
        """The MD5 of everything that was read, if known; SourceChanged when the source changed meanwhile."""

    def close(self) -> None:
        """Release the source. Called after the last part."""


class BlockDestination(NamedTuple):
    """The destination of an object. `url` is unique among all stores; `state` is the folder for notes."""

    store: Blocks
    key: str
    url: str
    state: Path | None


class BlockUpload:
    """The upload of one object; implements `mover.LargeTransfer`."""

    def __init__(self, source: Parts, place: BlockDestination, budget: Budget, arrived: Arrived) -> None:
        self._source = source
        self._place = place
        self._budget = budget
        self._arrived = arrived
        self._block_size = block_size(source.size, place.store.block_rules)
        self.parts = -(-source.size // self._block_size)
        self._metadata = to_metadata(source.entry)
        self._blocks: dict[int, Block] = {}
        self._counted: list[int] = []
        self._note = claim(place.state, place.url)
        try:
            self._upload = self._resume() or self._begin()
        except BaseException:
            self._close()
            raise

    def move_part(self, part: int) -> None:
        size = self._size_of(part)
        buffer = self._source.read(part, part * self._block_size, size, self._budget)
        try:
            # A part that the service has is read too, because the MD5 covers the whole file.
            if part not in self._blocks:
                data = memoryview(buffer)[:size]
                self._blocks[part] = self._place.store.put_block(self._place.key, self._upload, part, data)
        finally:
            self._budget.release(buffer)
        self._counted.append(size)
        self._arrived(size)

    def finish(self) -> None:
        try:
            md5 = self._source.md5()
            blocks = [self._blocks[number] for number in range(self.parts)]
            self._place.store.commit_blocks(
                self._place.key, self._upload, blocks, md5=md5, metadata=self._metadata
            )
        except SourceChanged:
            self._place.store.abort_upload(self._place.key, self._upload)
            self._forget()
            raise
        self._forget()
        self._close()

    def abandon(self) -> None:
        self._arrived(-sum(self._counted))
        self._close()

    def _resume(self) -> str | None:
        """The id of an upload that an earlier process began. Also loads the service's list of its blocks."""
        upload = self._note.read(self._identity()) if self._note else None
        found = self._place.store.list_blocks(self._place.key, upload) if upload else None
        if found is None:
            return None
        # Blocks of another size come from a gofer with other block sizes, and are sent again.
        fitting = [block for block in found if block.number < self.parts]
        self._blocks = {block.number: block for block in fitting if block.size == self._size_of(block.number)}
        return upload

    def _begin(self) -> str:
        upload = self._place.store.begin_upload(self._place.key, metadata=self._metadata)
        if self._note:
            self._note.write(self._identity(), upload)
        return upload

    def _identity(self) -> str:
        # With another block size, the numbers of the blocks would mean other bytes.
        return f"{self._source.identity}/{self._block_size}"

    def _size_of(self, part: int) -> int:
        return min(self._block_size, self._source.size - part * self._block_size)

    def _forget(self) -> None:
        if self._note:
            self._note.forget()

    def _close(self) -> None:
        self._source.close()
        if self._note:
            self._note.close()


def block_size(size: int, rules: BlockRules) -> int:
    """The block size for a file.

    Equal for every upload of this size: 8 MiB, or more to limit the number of blocks.
    """
    needed = -(-size // rules.most_blocks)
    return max(LARGE, rules.least, -(-needed // _MIB) * _MIB)


class StreamUpload:
    """The upload of one object as a single part; implements `mover.LargeTransfer`.

    It cannot be continued later.
    """

    parts = 1

    def __init__(self, source: Parts, store: Store, key: str, budget: Budget, arrived: Arrived) -> None:
        self._source = source
        self._store = store
        self._key = key
        self._budget = budget
        self._arrived = arrived
        self._moved = 0

    def move_part(self, part: int) -> None:
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
