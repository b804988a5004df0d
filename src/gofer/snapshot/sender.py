"""Sends a folder to a store: reads what must be read, packs what the store lacks, writes the manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.file_times import Stamp
from gofer.core.manifest import read_packs
from gofer.core.snapshot_names import ManifestError, compute_id, manifest_key, pack_key
from gofer.errors import KeyExists, StoreError
from gofer.snapshot.draft import FolderDraft
from gofer.snapshot.encode import write_manifest
from gofer.snapshot.inventory import Inventory
from gofer.snapshot.packing import Packer
from gofer.snapshot.recent import keep_young
from gofer.snapshot.removal_notice import wait_for_removal
from gofer.snapshot.stable_read import read_all
from gofer.snapshot.statcache import Record, load_listings, save_listings
from gofer.snapshot.walk import WalkedFolder

if TYPE_CHECKING:
    from gofer.snapshot.stores import ObjectStore

# With fewer bytes to send, looking for packs of other machines takes longer than sending.
_LEARN_BYTES = 1024 * 1024


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


class PacksGone(Exception):
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

        Raises PacksGone when code was removed before the manifest named it: then begin again. Raises
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
        if (self._inventory.is_new or unread >= _LEARN_BYTES) and self._inventory.learn():
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

        PacksGone as in `send`.
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
            if not keep_young(self._store, snapshot_id) or not self._is_sound(snapshot_id, packs):
                self._store.put(key, data)
        named = wait_for_removal(self._store, (key, *map(pack_key, packs)))
        if named:
            raise PacksGone([pack for pack in packs if pack_key(pack) in named])
        # A removal that ended before the notices were read may have deleted old packs.
        gone = [pack for pack in self._inventory.old(packs) if self._store.head(pack_key(pack)) is None]
        if gone:
            raise PacksGone(gone)
        return snapshot_id

    def _is_sound(self, snapshot_id: str, packs: dict[str, int]) -> bool:
        """Whether the existing manifest can be read and names only these packs."""
        try:
            return packs.keys() >= set(read_packs(self._store.get_range, snapshot_id))
        except (ManifestError, StoreError):
            return False
