"""Find out which runs have ended, by the ledger and by their records, for places that remove what runs
needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from gofer.backends.base import RunEnd
from gofer.ops.maintenance.rebuild import find_runs

if TYPE_CHECKING:
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


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
