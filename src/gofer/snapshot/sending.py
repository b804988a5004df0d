"""Sends a tree to a store: reads what must be read, packs what the store lacks, writes the manifest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gofer.agent.manifest import (
    ManifestError,
    compute_id,
    manifest_key,
    read_packs,
)
from gofer.errors import KeyExists, StoreError
from gofer.snapshot.draft import Draft
from gofer.snapshot.inventory import Inventory
from gofer.snapshot.packing import Packer
from gofer.snapshot.settling import read_all
from gofer.snapshot.statcache import Record
from gofer.snapshot.walk import Folder
from gofer.snapshot.writing import write_manifest

if TYPE_CHECKING:
    from gofer.snapshot.stores import ObjectStore

# Below this it is not worth asking what others have sent.
_LEARN_BYTES = 1024 * 1024


class Sent(NamedTuple):
    """The records of all folders in order, the packs they need, and what it took; see Snapshot."""

    records: dict[bytes, Record]
    packs: dict[str, int]
    files: int
    size: int
    changed: tuple[str, ...]


class Sending:
    """One tree on its way into one store."""

    def __init__(self, root: bytes, store: ObjectStore, cache_dir: str) -> None:
        self._root = root
        self._store = store
        self._inventory = Inventory(store, cache_dir)

    def send(self, folders: list[Folder], began_ns: int, progress: Callable[[int, int], None]) -> Sent:
        """Make the store hold these folders. The manifest comes last, so a reader finds all or nothing."""
        inventory = self._inventory
        settled, drafts = self._sort_out(folders)
        packer = Packer(self._store, inventory)
        try:
            seen = read_all(self._root, drafts, packer.add, progress)
            fresh = {draft.folder.path: draft.finish(began_ns) for draft in drafts}
            for record in fresh.values():
                packer.add(record.digest.hex(), record.listing)
            packer.close()
        finally:
            packer.abandon()
        for draft in drafts:
            listing = fresh[draft.folder.path].digest.hex()
            inventory.add_listing(listing, {inventory.pack_of(blob) for blob in (listing, *draft.blobs())})
        records = dict(sorted((settled | fresh).items()))
        packs = inventory.sizes(self._packs_of(records))
        self._write_manifest(records, packs)
        inventory.save()
        return Sent(records, packs, *seen)

    def _sort_out(self, folders: list[Folder]) -> tuple[dict[bytes, Record], list[Draft]]:
        """The folders the store has as they are, and drafts of the others."""
        inventory = self._inventory
        settled = self._settled(folders)
        if inventory.retire_small(self._packs_of(settled)):
            settled = self._settled(folders)
        drafts = [Draft(folder, inventory.has) for folder in folders if folder.path not in settled]
        unread = sum(draft.signature(name)[3] for draft in drafts for name in draft.unread)
        if (inventory.is_new or unread >= _LEARN_BYTES) and inventory.learn():
            drafts = [Draft(folder, inventory.has) for folder in folders if folder.path not in settled]
        return settled, drafts

    def _settled(self, folders: list[Folder]) -> dict[bytes, Record]:
        return {
            folder.path: folder.record
            for folder in folders
            if folder.unchanged
            and folder.record
            and self._inventory.packs_of_listing(folder.record.digest.hex()) is not None
        }

    def _packs_of(self, records: dict[bytes, Record]) -> set[str]:
        packs: set[str] = set()
        for record in records.values():
            packs.update(self._inventory.packs_of_listing(record.digest.hex()) or ())
        return packs

    def _write_manifest(self, records: dict[bytes, Record], packs: dict[str, int]) -> None:
        """Write it, unless one is there that needs nothing but these packs."""
        pairs = [(path, record.digest) for path, record in records.items()]
        files = sum(record.entries for record in records.values())
        size = sum(record.size for record in records.values())
        data = write_manifest(pairs, packs, files=files, size=size)
        snapshot_id = compute_id(pairs)
        try:
            self._store.put(manifest_key(snapshot_id), data, new=True)
        except KeyExists:
            if not self._is_sound(snapshot_id, packs):
                self._store.put(manifest_key(snapshot_id), data)

    def _is_sound(self, snapshot_id: str, packs: dict[str, int]) -> bool:
        """Whether the manifest that is there can be read and names none but these packs."""
        try:
            return packs.keys() >= set(read_packs(self._store.get_range, snapshot_id))
        except (ManifestError, StoreError):
            return False
