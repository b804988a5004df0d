"""What a store is known to contain: packs, and the snapshots last put there, so that an unchanged snapshot is
found by its id alone. Remembered between calls, but checked before use.

A pack counts as present only after the store has confirmed it, once per call. If this cache is lost, or two
calls write it at once, at worst some contents are sent again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gofer.core.code.packs import parse_index, read_object
from gofer.core.code.snapshot_names import ManifestError, index_key, manifest_key, pack_key
from gofer.errors import KeyNotFound, StoreError
from gofer.snapshot import cachefile
from gofer.snapshot.removal_notice import is_being_removed

if TYPE_CHECKING:
    from gofer.snapshot.stores import ObjectStore

_RECENT_KIND = "recent 1"
_MOST = 64
# Well below the day for which unneeded code is kept; see gofer.ops.prune.code.
YOUNG_S = 12 * 3600.0

_KIND = "inventory 1"
_MOST_BLOBS = 500_000
# A snapshot in more small packs than this has them joined, because restoring many packs is slow.
_SMALL_BYTES = 1024 * 1024
_MOST_SMALL = 32


def refresh_manifest(store: ObjectStore, snapshot_id: str) -> bool:
    """Whether the store has the manifest. An old manifest is written again.

    Its new time keeps `prune` from removing code that is about to be used, before the run is recorded.
    """
    key = manifest_key(snapshot_id)
    info = store.head(key)
    if info is None:
        return False
    if time.time() - info.modified > YOUNG_S:
        try:
            store.put(key, read_object(store.get_range, key))
        except (KeyNotFound, ManifestError):
            return False
    return True


class RecentSnapshots:
    """The ids of snapshots with the packs they need. A cache: its loss costs only time."""

    def __init__(self, store: ObjectStore, cache_dir: str) -> None:
        self._store = store
        self._path = cachefile.path(cache_dir, "recent", store.url)
        self._packs: dict[str, dict[str, int]] = cachefile.load(self._path, _RECENT_KIND) or {}

    def contains(self, snapshot_id: str) -> bool:
        """Whether this snapshot is known, and the store still has its manifest and every pack in full.

        False also when one of them is being removed.
        """
        packs = self._packs.get(snapshot_id)
        if packs is None or not refresh_manifest(self._store, snapshot_id):
            return False
        infos = ((self._store.head(pack_key(pack)), size) for pack, size in packs.items())
        if not all(info is not None and info.size == size for info, size in infos):
            return False
        return not is_being_removed(self._store, (manifest_key(snapshot_id), *map(pack_key, packs)))

    def add(self, snapshot_id: str, packs: Mapping[str, int]) -> None:
        """Remember a snapshot with its packs and their sizes. Never fails."""
        # Removed and added again, so that the newest is last and the oldest are dropped.
        self._packs.pop(snapshot_id, None)
        self._packs[snapshot_id] = dict(packs)
        cachefile.save(self._path, _RECENT_KIND, dict(list(self._packs.items())[-_MOST:]))


class Inventory:
    """The blobs, packs and listings of one store. For use by one thread.

    `is_new` says that nothing was remembered.
    """

    def __init__(self, store: ObjectStore, cache_dir: str) -> None:
        self._store = store
        self._path = cachefile.path(cache_dir, "stores", store.url)
        self._present: dict[str, bool] = {}
        self._old: set[str] = set()
        self._packs: dict[str, int]
        self._blobs: dict[str, str]
        self._listings: dict[str, tuple[str, ...]]
        saved = cachefile.load(self._path, _KIND)
        self.is_new = self._is_changed = saved is None
        self._packs, self._blobs, self._listings = saved or ({}, {}, {})

    def find_new_packs(self) -> bool:
        """Look for packs that other machines have sent; return whether there were any. Blocking."""
        infos = {info.key: info.size for info in self._store.list("packs")}
        before = len(self._packs)
        for key, size in infos.items():
            pack = key.rpartition("/")[2]
            if pack not in self._packs and index_key(pack) in infos:
                self._add_found_pack(pack, size)
        return len(self._packs) > before

    def _add_found_pack(self, pack: str, size: int) -> None:
        try:
            places = parse_index(read_object(self._store.get_range, index_key(pack)), pack)
        except (ManifestError, StoreError):
            return  # damaged or just removed: the pack counts as absent
        # A pack that was cut short by a full disk does not count.
        if sum(place.length for place in places.values()) == size:
            self._packs[pack] = size
            self._is_changed = True
            for blob in places:
                self._blobs.setdefault(blob, pack)

    def has(self, blob: str) -> bool:
        pack = self._blobs.get(blob)
        return pack is not None and self._is_present(pack)

    def pack_of(self, blob: str) -> str:
        """The pack of a blob for which `has` was true, or that was added."""
        return self._blobs[blob]

    def sizes(self, packs: Iterable[str]) -> dict[str, int]:
        """The sizes of known packs."""
        return {pack: self._packs[pack] for pack in packs}

    def packs_of_listing(self, listing: str) -> tuple[str, ...] | None:
        """Every pack that a folder needs; None when they are not known or one of them is missing."""
        packs = self._listings.get(listing, ())
        for pack in packs:
            if not self._present.get(pack) and not self._is_present(pack):
                return None
        return packs or None

    def add_pack(self, pack: str, size: int, blobs: Iterable[str]) -> None:
        """Note that a pack was sent."""
        self._packs[pack] = size
        self._present[pack] = self._is_changed = True
        self._blobs.update(dict.fromkeys(blobs, pack))

    def add_listing(self, listing: str, packs: Iterable[str]) -> None:
        self._listings[listing] = tuple(packs)
        self._is_changed = True

    def retire_small(self, packs: Iterable[str]) -> None:
        """Treat the small ones of these packs as absent, when there are too many of them, so that they are
        joined.
        """
        small = [pack for pack in packs if self._packs[pack] < _SMALL_BYTES]
        if len(small) > _MOST_SMALL:
            self._present.update(dict.fromkeys(small, False))

    def forget(self, packs: Iterable[str]) -> None:
        """Treat these packs as removed, even if the store still has them."""
        self._present.update(dict.fromkeys(packs, False))

    def old(self, packs: Iterable[str]) -> list[str]:
        """The packs that existed before and are old enough for `prune` to remove them."""
        return [pack for pack in packs if pack in self._old]

    def save(self) -> None:
        """Write the cache. Never fails."""
        gone = {pack for pack, answer in self._present.items() if not answer}
        if gone:
            self._packs = {pack: size for pack, size in self._packs.items() if pack not in gone}
            self._blobs = {blob: pack for blob, pack in self._blobs.items() if pack not in gone}
            self._listings = {key: packs for key, packs in self._listings.items() if gone.isdisjoint(packs)}
        if len(self._blobs) > _MOST_BLOBS:
            # The oldest entries are at the front.
            self._blobs = dict(list(self._blobs.items())[-_MOST_BLOBS:])
        if self._is_changed or gone:
            cachefile.save(self._path, _KIND, (self._packs, self._blobs, self._listings))

    def _is_present(self, pack: str) -> bool:
        """Whether the store has the pack in its known size. Asks the store once."""
        answer = self._present.get(pack)
        if answer is None:
            info = self._store.head(pack_key(pack))
            answer = self._present[pack] = info is not None and self._packs.get(pack) == info.size
            if info is not None and time.time() - info.modified > YOUNG_S:
                self._old.add(pack)
        return answer
