"""The records of runs in the ledger, each decoded once, and the time that a run has taken."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gofer.model.decode import decode
from gofer.model.run import RunRecord

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class RunRecords:
    """The records of runs. A row uses the record of its group, which is decoded once. For other runs, only
    the last record is cached, since there may be very many.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, RunRecord | None] = {}
        self._last: tuple[str, RunRecord | None] = ("", None)

    def of(self, row: RunRow) -> RunRecord | None:
        """The run's record; None when the ledger has none that can be read."""
        owner = row.group_id or row.id
        if owner in self._known:
            return self._known[owner]
        if owner != self._last[0]:
            self._last = (owner, self._read(row, owner))
        if row.group_id or row.kind == "group":
            self._known[owner] = self._last[1]
        return self._last[1]

    def _read(self, row: RunRow, owner: str) -> RunRecord | None:
        data = row.record if owner == row.id else b""
        if not data:
            held = self._session.ledger.get(owner)
            data = held.record if held else b""
        return decode(data, RunRecord)


def elapsed_s(row: RunRow) -> float | None:
    """The seconds that the run ran, as measured by its node, or until now while it runs."""
    if row.elapsed_s is not None or row.started_at is None:
        return row.elapsed_s
    return max((row.ended_at or time.time()) - row.started_at, 0.0)
