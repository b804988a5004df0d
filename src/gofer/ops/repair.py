"""A run that the ledger has and its cluster does not: finish what was interrupted, or read what became of it.

Sending again is always safe. The cluster knows a run by its id, and the log of a started rank, which can be made
only once, keeps a command from being started a second time even when the cluster has lost its memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gofer.model.run import Attempt, Observation, RunRecord
from gofer.ops.rebuild import standing_of
from gofer.ops.send import is_here, is_sending, send

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def repair(session: Session, rows: Sequence[RunRow], backend: Backend) -> None:
    """For each run or group: the end that its folder proves, else the submission again, unless under way."""
    owners = dict.fromkeys(row.group_id or row.id for row in rows)
    for owner_id in owners:
        owner = session.ledger.get(owner_id)
        if owner is None or not owner.record or is_sending(owner.submitter):
            continue
        record = msgspec.json.decode(owner.record, type=RunRecord)
        mine = [row for row in rows if (row.group_id or row.id) == owner_id]
        ended = [one for row in mine if (one := _proven_end(session, row, record)) is not None]
        session.ledger.apply(ended, time.time())
        if len(ended) < len(mine) and is_here(owner.submitter):
            send(session, record, owner.store, backend)
            session.ledger.add_event(owner_id, time.time(), "repaired", {"state": owner.state})
            session.say(f"completed the interrupted submission of {owner_id}")


def _proven_end(session: Session, row: RunRow, record: RunRecord) -> Observation | None:
    found = standing_of(session.store(row.store), row, record)
    facts = {**found._asdict(), "attempts": [msgspec.convert(one, Attempt) for one in found.attempts]}
    seen = msgspec.convert({"run_id": row.id, **facts}, Observation)
    return seen if seen.state.is_final else None
