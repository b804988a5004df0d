"""Remembers the snapshots last put into a store, so that an unchanged one is found by its id alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gofer.core.packs import read_object
from gofer.core.snapshot_names import ManifestError, manifest_key, pack_key
from gofer.errors import KeyNotFound
from gofer.snapshot import cachefile
from gofer.snapshot.removal_notice import is_being_removed

if TYPE_CHECKING:
    from gofer.snapshot.stores import ObjectStore

_KIND = "recent 1"
_MOST = 64
# Well below the day for which unneeded code is kept; see gofer.ops.prune.code.
YOUNG_S = 12 * 3600.0


def keep_young(store: ObjectStore, snapshot_id: str) -> bool:
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


class Recent:
    """The ids of snapshots with the packs they need. A cache: its loss costs only time."""

    def __init__(self, store: ObjectStore, cache_dir: str) -> None:
        self._store = store
        self._path = cachefile.path(cache_dir, "recent", store.url)
        self._packs: dict[str, dict[str, int]] = cachefile.load(self._path, _KIND) or {}

    def is_there(self, snapshot_id: str) -> bool:
        """Whether this snapshot is known, and the store still has its manifest and every pack in full.

        False also when one of them is being removed.
        """
        packs = self._packs.get(snapshot_id)
        if packs is None or not keep_young(self._store, snapshot_id):
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
        cachefile.save(self._path, _KIND, dict(list(self._packs.items())[-_MOST:]))
