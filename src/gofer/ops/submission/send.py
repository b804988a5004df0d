"""Send a recorded run to its store and its cluster. Idempotent: sending twice has the effect of sending
once.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.core import processes, run_layout
from gofer.core.states import State
from gofer.errors import BackendError, CredentialError, GoferError, KeyExists, StoreError
from gofer.model.ids import row_id
from gofer.model.run import Observation, RunRecord
from gofer.ops.messages import Warning
from gofer.ops.submission.ledger_rows import encode_record
from gofer.transport.activity import activity

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session


def send(session: Session, record: RunRecord, store_url: str, backend: Backend) -> None:
    """Write the record to the store, submit the plan, and note in the ledger that the cluster has the run.
    Blocks.

    Errors of the store and the cluster pass through, with a hint that the run is recorded.
    """
    try:
        with suppress(KeyExists):  # an earlier try has already written the record
            session.store(store_url).put(run_layout.record_key(record.id), encode_record(record), new=True)
        with activity(f"submitting {record.id} to `{record.target}`"):
            backend.submit(backend.plan(record, backend.prepare(record)))
    except (StoreError, BackendError, CredentialError) as error:
        told = f"{record.id} is recorded, and the next command that can sends it; `gofer abort` prevents this"
        error.hint = told if error.hint is None else f"{error.hint}; {told}"
        raise
    try:
        _note_sent(session, record, backend)
    except (GoferError, OSError) as error:
        # No error, because the cluster has the run: a script that repeats a failed command would submit it
        # twice.
        session.emit(Warning(f"{record.id} was sent, but {error}"))


def _note_sent(session: Session, record: RunRecord, backend: Backend) -> None:
    count = None if record.array is None else len(record.array.rows)
    ids = [record.id] if count is None else [row_id(record.id, index) for index in range(count)]
    session.ledger.apply([Observation(run_id=one, state=State.QUEUED) for one in ids], time.time())
    backend.drop_abandoned_secrets(lambda run_id: session.ledger.get(run_id) is not None)


def this_process(session: Session) -> str:
    """A unique name of this process on this machine, for `is_sending` and `is_here`."""
    return f"{processes.name_of_this()}@{session.queue_id}"


def is_here(session: Session, submitter: str) -> bool:
    """Whether a run was recorded on this machine, with the same queue."""
    return submitter.rpartition("@")[2] == session.queue_id


def is_sending(submitter: str) -> bool:
    """Whether the process that recorded a run is still alive and so may still send it."""
    return processes.is_named_alive(submitter.rpartition("@")[0])
