"""Sends a folder to a store: reads what must be read, packs what the store lacks, writes the manifest.

Many small files go in one object. Few packs are in memory at once.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.code.file_times import Stamp
from gofer.core.code.manifest import read_packs
from gofer.core.code.packs import CHUNK_BYTES
from gofer.core.code.snapshot_names import ManifestError, compute_id, index_key, manifest_key, pack_key
from gofer.errors import KeyExists, StoreError
from gofer.snapshot.folder_draft import FolderDraft, to_json, write_manifest
from gofer.snapshot.inventory import Inventory, refresh_manifest
from gofer.snapshot.removal_notice import wait_for_removal
from gofer.snapshot.stable_read import read_all
from gofer.snapshot.statcache import Record, load_listings, save_listings
from gofer.snapshot.walk import WalkedFolder

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from gofer.snapshot.stores import ObjectStore

# A blob of this size gets its own pack, so that changes to other files do not send it again.
ALONE_BYTES = 4 * 1024 * 1024
_PACK_BYTES = CHUNK_BYTES
_IN_FLIGHT = 3

# With fewer bytes to send, looking for packs of other machines takes longer than sending.
_LEARN_BYTES = 1024 * 1024


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
            self._send_in_thread([(blob, data)])
            return True
        if self._size + len(data) > _PACK_BYTES:
            self._send_collected()
        self._parts.append((blob, data))
        self._size += len(data)
        return True

    def close(self) -> None:
        """Send the rest, and wait until everything is sent."""
        try:
            if self._parts and self._pool is None:
                self._note(self._send(self._parts))
            elif self._parts:
                self._send_collected()
            while self._flights:
                self._note(self._flights.popleft().result())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Wait for packs that are being sent, and drop the rest; for use after an error."""
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _send_collected(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        self._send_in_thread(parts)

    def _send_in_thread(self, parts: list[tuple[str, bytes]]) -> None:
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


class Sent(NamedTuple):
    """The result: the id, the records of all folders in order, their listings, the packs they need, and
    counts.

    `stamps` are the times and modes of the files in folders that have changed since their record.
    """

    id: str
    records: dict[str, Record]
    listings: dict[bytes, bytes]
    packs: dict[str, int]
    stamps: dict[str, list[Stamp]]
    files: int
    size: int
    changed: tuple[str, ...]


class PacksRemoved(Exception):
    """Code in the store has been removed meanwhile, because no run needed it. Some of `packs` may be gone."""

    def __init__(self, packs: Collection[str]) -> None:
        super().__init__(packs)
        self.packs = packs


class SnapshotSender:
    """Sends one folder to one store. Packs in `gone` are sent again, even when the store has them."""

    def __init__(self, root: str, store: ObjectStore, cache_dir: str, gone: Collection[str] = ()) -> None:
        self._root = root
        self._cache_dir = cache_dir
        self._listings = load_listings(cache_dir, root)
        self._saved_listings = set(self._listings)
        self._store = store
        self._inventory = Inventory(store, cache_dir)
        self._inventory.forget(gone)

    def send(self, folders: list[WalkedFolder], began_ns: int, progress: Callable[[int, int], None]) -> Sent:
        """Send the folders. The manifest comes last, so that a reader finds everything or nothing. Blocking.

        Raises PacksRemoved when code was removed before the manifest named it: then begin again. Raises
        SnapshotError when such a removal does not end.
        """
        inventory = self._inventory
        settled, drafts = self._sort_out(folders)
        packer = Packer(self._store, inventory)
        try:
            seen = read_all(self._root, drafts, packer.add, progress)
            fresh = {draft.folder.path: self._finish(draft, packer, began_ns) for draft in drafts}
            packer.close()
        finally:
            packer.abandon()
        for draft in drafts:
            self._note_packs(fresh[draft.folder.path].digest.hex(), draft.blobs())
        records = {folder.path: (fresh.get(folder.path) or settled[folder.path]) for folder in folders}
        packs = inventory.sizes(self._packs_of(records))
        snapshot_id = self._write_manifest(records, packs)
        inventory.save()
        stamps = {draft.folder.path: draft.stamps() for draft in drafts}
        return Sent(snapshot_id, records, self._save_listings(records), packs, stamps, *seen)

    def _note_packs(self, listing: str, blobs: list[str]) -> None:
        packs = {self._inventory.pack_of(blob) for blob in (listing, *blobs)}
        if self._inventory.packs_of_listing(listing) is None:
            self._inventory.add_listing(listing, packs)

    def _save_listings(self, records: dict[str, Record]) -> dict[bytes, bytes]:
        wanted = {record.digest: self._listings[record.digest] for record in records.values()}
        if wanted.keys() != self._saved_listings:
            save_listings(self._cache_dir, self._root, wanted)
        return wanted

    def _finish(self, draft: FolderDraft, packer: Packer, began_ns: int) -> Record:
        listing = draft.listing()
        record = draft.record(listing, began_ns)
        self._listings[record.digest] = listing
        packer.add(record.digest.hex(), listing)
        return record

    def _sort_out(self, folders: list[WalkedFolder]) -> tuple[dict[str, Record], list[FolderDraft]]:
        """The records of folders that the store has unchanged, and drafts of the other folders."""
        last = {folder.path: folder.record for folder in folders if folder.record}
        self._inventory.retire_small(self._packs_of(last))
        settled, drafts = self._divide(folders)
        unread = sum(draft.signature(name)[3] for draft in drafts for name in draft.unread)
        if (self._inventory.is_new or unread >= _LEARN_BYTES) and self._inventory.find_new_packs():
            settled, drafts = self._divide(folders)
        return settled, drafts

    def _divide(self, folders: list[WalkedFolder]) -> tuple[dict[str, Record], list[FolderDraft]]:
        settled = self._settled(folders)
        return settled, [self._draft(folder) for folder in folders if folder.path not in settled]

    def _draft(self, folder: WalkedFolder) -> FolderDraft:
        listing = self._listings.get(folder.record.digest) if folder.record else None
        return FolderDraft(folder, listing, self._inventory.has)

    def _settled(self, folders: list[WalkedFolder]) -> dict[str, Record]:
        return {
            folder.path: folder.record
            for folder in folders
            if folder.unchanged
            and folder.record
            and folder.record.digest in self._listings
            and self._inventory.packs_of_listing(folder.record.digest.hex()) is not None
        }

    def _packs_of(self, records: dict[str, Record]) -> set[str]:
        packs: set[str] = set()
        for record in records.values():
            packs.update(self._inventory.packs_of_listing(record.digest.hex()) or ())
        return packs

    def _write_manifest(self, records: dict[str, Record], packs: dict[str, int]) -> str:
        """Write the manifest, unless the store has one that needs only these packs. Returns the snapshot's
        id.

        PacksRemoved as in `send`.
        """
        pairs = [(os.fsencode(path), record.digest) for path, record in records.items()]
        files = sum(record.entries for record in records.values())
        size = sum(record.size for record in records.values())
        data = write_manifest(pairs, packs, files=files, size=size)
        snapshot_id = compute_id(pairs)
        key = manifest_key(snapshot_id)
        try:
            self._store.put(key, data, new=True)
        except KeyExists:
            if not refresh_manifest(self._store, snapshot_id) or not self._is_sound(snapshot_id, packs):
                self._store.put(key, data)
        named = wait_for_removal(self._store, (key, *map(pack_key, packs)))
        if named:
            raise PacksRemoved([pack for pack in packs if pack_key(pack) in named])
        # A removal that ended before the notices were read may have deleted old packs.
        gone = [pack for pack in self._inventory.old(packs) if self._store.head(pack_key(pack)) is None]
        if gone:
            raise PacksRemoved(gone)
        return snapshot_id

    def _is_sound(self, snapshot_id: str, packs: dict[str, int]) -> bool:
        """Whether the existing manifest can be read and names only these packs."""
        try:
            return packs.keys() >= set(read_packs(self._store.get_range, snapshot_id))
        except (ManifestError, StoreError):
            return False
