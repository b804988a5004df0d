"""Remove whole runs: their folders in the store and their rows in the ledger. Find which runs have ended, by
the ledger and by their records, also for places that remove what runs needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.backends.base import Prunable, PruneBounds, RunEnd
from gofer.core import prune
from gofer.core import run_layout as names
from gofer.model.ids import split_row
from gofer.ops.maintenance.rebuild import find_runs
from gofer.storage.base import OnDisk, OnMachine
from gofer.tracking.ledger import Ledger

if TYPE_CHECKING:
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


KIND = "run"
REMAINS = "run remains"
_WHY = {
    KIND: "asked for by `--runs`: record, logs, outputs",
    REMAINS: "left by an interrupted removal: its record is gone",
}


class RunsPlace:
    """Runs of one store: the runs `rows`, and what interrupted removals left. `known` are all runs in the
    ledger. The removing thread opens the ledger itself.
    """

    def __init__(self, store: Store, rows: Sequence[RunRow], known: Collection[str], ledger: Path) -> None:
        self.name = f"runs in {store.url}"
        self._store = store
        self._rows = {row.id: row for row in rows}
        self._known = frozenset(known)
        self._ledger = ledger

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        sizes = self._sizes()
        found = [self._item(KIND, row.id, sizes.get(row.id, 0), ended_at(row)) for row in self._rows.values()]
        return found + self._remains(bounds)

    def _item(self, kind: str, name: str, size: int, at: float) -> Prunable:
        return Prunable(self._store.url, kind, name, size, at, _WHY[kind])

    def _remains(self, bounds: PruneBounds) -> list[Prunable]:
        """Folders without a record. A run writes nothing before its record exists.

        Empty folders of any age are included, since writers make the folders that they need again.
        """
        folders: dict[str, list[str]] = {}
        for place in (names.RUNS, names.CODE):
            for name in self._store.list_folders(place):
                folders.setdefault(split_row(name)[0], []).append(f"{place}/{name}")
        found = []
        for owner, mine in folders.items():
            if owner in self._known or self._store.head(names.record_key(owner)) is not None:
                continue
            infos = [info for name in mine for info in self._store.list(name)]
            at = max((info.modified for info in infos), default=bounds.unused_since)
            if not infos or at < bounds.unused_since:
                found.append(self._item(REMAINS, owner, sum(info.size for info in infos), at))
        return found

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        """Remove runs. Blocks.

        The record is removed first, so that the rest of a killed removal is never mistaken for a run to send.
        The row in the ledger is removed last, so that the next removal finds the run and continues.
        """
        gone = []
        with Ledger.open(self._ledger) as ledger:
            for item in doomed:
                row = ledger.get(item.name)
                if item.kind == KIND and (row is None or not row.is_final):
                    continue  # another removal has already removed it
                self._store.delete([names.record_key(item.name)])
                for run_id in [item.name] if row is not None and row.kind == "run" else self._rows_of(item):
                    self._empty(names.run_key(run_id))
                self._empty(names.plain_code_key(item.name))
                if item.kind == REMAINS or ledger.remove(item.name):
                    gone.append(item)
        return gone

    def _empty(self, prefix: str) -> None:
        self._store.delete([info.key for info in self._store.list(prefix)])
        # In a store that is a folder, a run may also have made folders without any file.
        if isinstance(self._store, OnDisk):
            prune.tidy(str(self._store.path(prefix)))
        elif isinstance(self._store, OnMachine):
            self._store.remove_empty_folders(prefix)

    def _rows_of(self, item: Prunable) -> list[str]:
        """The folders of the run or group and of its rows."""
        return [name for name in self._store.list_folders(names.RUNS) if split_row(name)[0] == item.name]

    def _sizes(self) -> dict[str, int]:
        """The sizes of run folders. Uses one listing when there are many runs, or rows whose folders are
        unknown.
        """
        found: dict[str, int] = {}
        few = len(self._rows) <= 16 and all(row.kind == "run" for row in self._rows.values())
        alone = [key(one) for one in self._rows for key in (names.run_key, names.plain_code_key)]
        for prefix in alone if few else [names.RUNS, names.CODE]:
            for info in self._store.list(prefix):
                owner = split_row(info.key.split("/")[1])[0]
                found[owner] = found.get(owner, 0) + info.size
        return found


class EndedRuns:
    """Answers from the ledger's rows at the start, and from one store. Any thread may call.

    A run that neither knows has not ended. A run that is open in the ledger has not ended either, whatever
    the store says: its row must be updated first.
    """

    def __init__(self, rows: Iterable[RunRow], store: Store) -> None:
        self._known = {row.id: row for row in rows if row.group_id is None}
        self._store = store

    def __call__(self, ids: Collection[str], proven: bool) -> Mapping[str, RunEnd]:
        """See `PruneBounds.ended`; StoreError when the store cannot be read."""
        rows = {one: self._known.get(one) for one in ids}
        found = {one: RunEnd(ended_at(row)) for one, row in rows.items() if row is not None and row.is_final}
        asked = {one for one, row in rows.items() if row is None or (proven and row.is_final)}
        for one, at in (recorded_ends(self._store, asked) if asked else {}).items():
            found[one] = RunEnd(found[one].at if one in found else at, is_recorded=True)
        return found


def ended_at(row: RunRow) -> float:
    """When a run ended. A run that was given up has no end, so the time of the last observation is used."""
    return row.ended_at or row.observed_at or row.submitted_at


def recorded_ends(store: Store, ids: Collection[str]) -> dict[str, float]:
    """The ended runs and groups among `ids`, according to their own records, with the end of their last
    run.
    """
    wanted = set(ids)
    by_owner: dict[str, list[RunRow]] = {}
    for row in find_runs(store, lambda owners: [one for one in owners if one in wanted]).rows:
        if row.kind == "run":
            by_owner.setdefault(row.group_id or row.id, []).append(row)
    return {
        owner: max(ended_at(row) for row in rows)
        for owner, rows in by_owner.items()
        if all(row.is_final for row in rows)
    }
