"""Which runs have ended, for whoever removes what only runs needed: by the ledger and by their records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from gofer.backends.base import RunEnd
from gofer.ops.maintenance.rebuild import find_runs

if TYPE_CHECKING:
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


class Ends:
    """Answers from the ledger's lines as they were, and from one store. Any thread may ask.

    A run that neither knows has not ended, and one that the ledger has as living has not either, whatever
    the store says: its line is brought up to date first.
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
    """A run that was given up has no end of its own: it was last seen then."""
    return row.ended_at or row.observed_at or row.submitted_at


def recorded_ends(store: Store, ids: Collection[str]) -> dict[str, float]:
    """Of the runs and groups that their own records say have ended, when the last of each did."""
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
