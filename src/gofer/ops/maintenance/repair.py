"""Repair a run that is in the ledger but not in its cluster: complete the submission, or read how the run
ended.

Sending a run again is always safe. The cluster identifies a run by its id. Even if the cluster has lost its
data, the log of a started rank, which can be created only once, prevents a second start.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.backends.base import RunRef
from gofer.core.states import Reason, State
from gofer.model.run import Observation, RunRecord
from gofer.ops.maintenance.rebuild import statuses_of
from gofer.ops.messages import Message, Warning
from gofer.ops.runs.end_records import record_ends
from gofer.ops.runs.run_folder import decode
from gofer.ops.runs.run_origin import check_whole
from gofer.ops.runs.run_status import observation_of
from gofer.ops.submission.send import is_here, is_sending, send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

# The event of a request to stop a run.
CANCEL_ASKED = "cancel-asked"


def repair(session: Session, rows: Sequence[RunRow], backend: Backend) -> None:
    """For each run or group, record the end that its folder proves, else submit it again, unless that is
    under way.

    For a run that another machine recorded, only the folder is read. A run that was to be stopped before it
    reached its cluster is not sent.
    """
    owners = dict.fromkeys(row.group_id or row.id for row in rows)
    for owner_id in owners:
        owner = session.ledger.get(owner_id)
        if owner is None or not owner.record or is_sending(owner.submitter):
            continue
        record = decode(owner.record, RunRecord)
        if record is None:
            session.emit(
                Warning(f"the record of {owner_id} in the ledger cannot be read; `gofer ledger rebuild`")
            )
            continue
        mine = [row for row in rows if (row.group_id or row.id) == owner_id]
        if not is_here(session, owner.submitter):
            session.ledger.apply(_proven(session, mine, record), time.time())
            continue
        ended = [one for one in _proven(session, mine, record) if one.state.is_final]
        session.ledger.apply(ended, time.time())
        known = {one.run_id for one in ended}
        left = [row for row in mine if row.id not in known]
        if left and all(is_unwanted(session, row) for row in left):
            ends = {row.id: _never_sent(row) for row in left}
            record_ends(session, left, ends)
            session.ledger.apply(list(ends.values()), time.time())
            _remove_secrets(backend, owner_id)
            _forget(session, owner_id)
        elif left:
            check_whole(session, owner)
            send(session, record, owner.store, backend)
            session.ledger.add_event(owner_id, time.time(), "repaired", {"state": owner.state})
            session.emit(Message(f"completed the interrupted submission of {owner_id}"))
        else:
            _forget(session, owner_id)


def is_unwanted(session: Session, row: RunRow) -> bool:
    """Whether a person asked to stop the run or its group, and the cluster has not confirmed it."""
    if row.state != State.PENDING:
        return False
    asked = [row.id, *([row.group_id] if row.group_id else [])]
    return any(event.event == CANCEL_ASKED for one in asked for event in session.ledger.events(one))


def stop_unwanted(
    session: Session, rows: Sequence[RunRow], seen: Mapping[str, Observation], backend: Backend
) -> None:
    """Cancel unwanted runs that have reached their cluster after all. `rows` are the ledger's rows before the
    refresh.
    """
    found = [row for row in rows if row.id in seen and not seen[row.id].state.is_final]
    unwanted = [row for row in found if is_unwanted(session, row)]
    if unwanted:
        backend.cancel([RunRef(row.id, row.group_id, row.row_index) for row in unwanted])


def _remove_secrets(backend: Backend, owner_id: str) -> None:
    backend.remove_secrets(owner_id)


def _never_sent(row: RunRow) -> Observation:
    return Observation(
        run_id=row.id,
        state=State.CANCELLED,
        reason=Reason.USER,
        detail="stopped before it reached its cluster",
        ended_at=time.time(),
    )


def _forget(session: Session, owner_id: str) -> None:
    """Remove files that only these runs needed, since no queue will remove them."""
    owner = session.ledger.get(owner_id)
    if owner is not None and owner.is_final:
        # Every command that asks a cluster loads this module, and needs no part of a queue.
        from gofer.queue.journal import remove_traces

        for _ in remove_traces(str(session.paths.queue_home), owner_id):
            pass


def _proven(session: Session, rows: Sequence[RunRow], record: RunRecord) -> list[Observation]:
    """What the folders of runs prove. Runs without a folder are left out."""
    found = statuses_of(session.runs_in(rows[0].store), rows, record)
    return [
        observation_of(run_id, status) for run_id, status in found.items() if status.state != State.PENDING
    ]
