"""Remove code in a store that no run needs: manifests that no record names, and packs that no manifest names.

Code is sent before its run is recorded, so recent objects are never removed. A removal first announces in the
store what it is about to delete, and then reads again what runs need: see gofer.snapshot.removal_notice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gofer.backends.base import Prunable, PruneBounds
from gofer.core import run_layout as names
from gofer.core.code.manifest import ManifestError, read_packs
from gofer.core.code.snapshot_names import index_key, manifest_key, pack_key
from gofer.core.parallel import parallel_map
from gofer.errors import CheckFailed, KeyNotFound
from gofer.model.ids import split_row
from gofer.model.run import RunRecord
from gofer.ops.runs.run_folder import READERS, decode, read
from gofer.snapshot.removal_notice import announce, delete_abandoned

if TYPE_CHECKING:
    from gofer.storage.base import Store

A = TypeVar("A")
T = TypeVar("T")

SNAPSHOT, PACK = "snapshot", "pack"
_BATCH = 200
_WHY = {SNAPSHOT: "no run in the store has this code", PACK: "no snapshot that stays needs it"}


class _Object(NamedTuple):
    name: str
    size: int
    at: float


class CodePlace:
    """The code in one store. `wanted` are snapshots of runs whose records are not in the store yet."""

    def __init__(self, store: Store, wanted: Collection[str]) -> None:
        self.name = f"code in {store.url}"
        self._store = store
        self._wanted = frozenset(wanted)
        self._snapshots: dict[str, str | None] = {}  # by run; the record of a run never changes
        self._packs: dict[
            _Object, tuple[str, ...]
        ] = {}  # a manifest that is written again may name other packs

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        """Code that no run needs. CheckFailed when a record or manifest cannot be read, because it is then
        unknown what runs need.
        """
        return [
            Prunable(self._store.url, kind, one.name, one.size, one.at, _WHY[kind])
            for kind, objects in zip((SNAPSHOT, PACK), self._unneeded(bounds), strict=True)
            for one in objects
        ]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        # runs that should have been removed but still exist need their code
        bounds = bounds._replace(whole=frozenset())
        gone: list[Prunable] = []
        delete_abandoned(self._store)
        for kind in (SNAPSHOT, PACK):  # in this order, no manifest is left without its packs
            mine = [one for one in doomed if one.kind == kind]
            for at in range(0, len(mine), _BATCH):
                gone += self._remove(kind, mine[at : at + _BATCH], bounds)
        self._check(gone)
        return gone

    def _remove(self, kind: str, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        key_of = manifest_key if kind == SNAPSHOT else pack_key
        with announce(self._store, [key_of(one.name) for one in doomed]):
            free = {(one.kind, one.name) for one in self.prunable(bounds)}
            going = [one for one in doomed if (kind, one.name) in free]
            self._store.delete([key_of(one.name) for one in going])
            if kind == PACK:
                self._store.delete([index_key(one.name) for one in going])
        return going

    def _check(self, gone: Sequence[Prunable]) -> None:
        """Check that no run lost its code: an older gofer does not read removal notices."""
        lost = {(one.kind, one.name) for one in gone}
        manifests = {one.name: one for one in _objects(self._store, names.SNAPSHOTS)}
        for run_id, snapshot in self._needs(frozenset()).items():
            if snapshot is None:
                continue
            manifest = manifests.get(snapshot)
            packs = () if manifest is None else self._packs_of(manifest)
            if (manifest is None and (SNAPSHOT, snapshot) in lost) or any(
                (PACK, pack) in lost for pack in packs
            ):
                raise CheckFailed(
                    f"{run_id} was submitted while code that it needs was removed from {self._store.url}",
                    hint=f"`gofer resubmit {run_id} --new-code` sends it again",
                )

    def _unneeded(self, bounds: PruneBounds) -> tuple[list[_Object], list[_Object]]:
        # listed before the manifests, since a new manifest may need a new pack
        packs = _objects(self._store, names.PACKS)
        needed = {one for one in self._needs(bounds.whole).values() if one} | self._wanted
        snapshots = _objects(self._store, names.SNAPSHOTS)
        stays = [one for one in snapshots if one.name in needed or one.at >= bounds.unused_since]
        used = {pack for found in parallel_map(self._packs_of, stays, at_once=READERS) for pack in found}
        staying = {one.name for one in stays}
        old = [one for one in packs if one.name not in used and one.at < bounds.unused_since]
        return [one for one in snapshots if one.name not in staying], old

    def _needs(self, whole: frozenset[str]) -> dict[str, str | None]:
        """The snapshot of each run and group in the store that is not to be removed."""
        found = [name for name in self._store.list_folders(names.RUNS) if split_row(name)[1] is None]
        new = [one for one in found if one not in self._snapshots]
        for run_id, data in zip(new, parallel_map(self._record, new, at_once=READERS), strict=True):
            if data is not None:  # else the run is still being submitted, or is being removed
                self._snapshots[run_id] = self._snapshot_in(run_id, data)
        return {one: self._snapshots[one] for one in found if one in self._snapshots and one not in whole}

    def _record(self, run_id: str) -> bytes | None:
        return read(self._store, names.record_key(run_id))

    def _snapshot_in(self, run_id: str, data: bytes) -> str | None:
        record = decode(data, RunRecord)
        if record is None:
            raise CheckFailed(
                f"{self._store.url}/{names.record_key(run_id)} is not a record of a run, so the code "
                "that it needs is not known",
                hint="a newer gofer may have written it; without `--code` the rest is removed",
            )
        return record.snapshot

    def _packs_of(self, manifest: _Object) -> tuple[str, ...]:
        if manifest not in self._packs:
            try:
                self._packs[manifest] = read_packs(self._store.get_range, manifest.name)
            except KeyNotFound:
                return ()  # another process is removing it
            except ManifestError as error:
                raise CheckFailed(
                    f"{self._store.url}/{manifest_key(manifest.name)} cannot be read, so the packs it needs "
                    f"are not known: {error}",
                    hint="without `--code` the rest is removed",
                ) from error
        return self._packs[manifest]


def _objects(store: Store, prefix: str) -> list[_Object]:
    """The objects by name. A pack consists of contents and index; its time is that of the newer one."""
    found: dict[str, _Object] = {}
    for info in store.list(prefix):
        name = info.key.rpartition("/")[2].removesuffix(".idx")
        known = found.get(name, _Object(name, 0, 0.0))
        found[name] = _Object(name, known.size + info.size, max(known.at, info.modified))
    return list(found.values())
