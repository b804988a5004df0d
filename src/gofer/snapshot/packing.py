"""Puts contents into packs and sends them: many small files in one object, few packs in memory at once."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.packs import CHUNK_BYTES
from gofer.core.snapshot_names import index_key, pack_key
from gofer.errors import KeyExists
from gofer.snapshot.encode import to_json
from gofer.snapshot.inventory import Inventory

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from gofer.snapshot.stores import ObjectStore

# A blob of this size gets its own pack, so that changes to other files do not send it again.
ALONE_BYTES = 4 * 1024 * 1024
_PACK_BYTES = CHUNK_BYTES
_IN_FLIGHT = 3


class _Sent(NamedTuple):
    pack: str
    size: int
    blobs: list[str]


class Packer:
    """Takes blobs and sends those that the store lacks. One thread adds; other threads send packs.

    An error of the store is raised by a later `add` or by `close`. Packs that were sent before stay in the
    store, although no manifest names them.
    """

    def __init__(self, store: ObjectStore, inventory: Inventory) -> None:
        self._store = store
        self._inventory = inventory
        self._waiting: set[str] = set()
        self._parts: list[tuple[str, bytes]] = []
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None
        self._flights: deque[Future[_Sent]] = deque()

    def add(self, blob: str, data: bytes) -> bool:
        """Take the bytes whose sha256 is `blob`; return whether they must be sent."""
        if blob in self._waiting or self._inventory.has(blob):
            return False
        self._waiting.add(blob)
        if len(data) >= ALONE_BYTES:
            self._send_beside([(blob, data)])
            return True
        if self._size + len(data) > _PACK_BYTES:
            self._send_gathered()
        self._parts.append((blob, data))
        self._size += len(data)
        return True

    def close(self) -> None:
        """Send the rest, and wait until everything is sent."""
        try:
            if self._parts and self._pool is None:
                self._note(self._send(self._parts))
            elif self._parts:
                self._send_gathered()
            while self._flights:
                self._note(self._flights.popleft().result())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Wait for packs that are being sent, and drop the rest; for use after an error."""
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _send_gathered(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        self._send_beside(parts)

    def _send_beside(self, parts: list[tuple[str, bytes]]) -> None:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to load, and few files need no thread

            self._pool = ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="gofer-pack")
        # Waiting here limits the memory to a few packs.
        while len(self._flights) >= _IN_FLIGHT:
            self._note(self._flights.popleft().result())
        self._flights.append(self._pool.submit(self._send, parts))

    def _send(self, parts: list[tuple[str, bytes]]) -> _Sent:
        data = parts[0][1] if len(parts) == 1 else b"".join(part for _, part in parts)
        rows, offset = [], 0
        for blob, part in parts:
            rows.append([blob, offset, len(part)])
            offset += len(part)
        index = to_json(rows)
        pack = hashlib.sha256(index).hexdigest()
        # The pack before its index: an index without its pack would promise missing contents.
        self._put(pack_key(pack), data)
        self._put(index_key(pack), index)
        return _Sent(pack, len(data), [blob for blob, _ in parts])

    def _put(self, key: str, data: bytes) -> None:
        try:
            self._store.put(key, data, new=True)
        except KeyExists:
            info = self._store.head(key)
            if info is None or info.size != len(data):  # incomplete, for example after a full disk
                self._store.put(key, data)

    def _note(self, sent: _Sent) -> None:
        self._inventory.add_pack(sent.pack, sent.size, sent.blobs)
        self._waiting.difference_update(sent.blobs)
