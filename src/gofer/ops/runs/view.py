"""A run as JSON, as every `--json` prints it. gofer.ops.runs.run_document defines the fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from gofer.core.states import State
from gofer.ops.files.results import CameHome, LeftFiles, came_home
from gofer.ops.runs.failures import FirstFailure, explain, find_first_failure
from gofer.ops.runs.freshness import NOT_STALE, StaleRuns
from gofer.ops.runs.node_reports import NodeUse, node_usage
from gofer.ops.runs.run_document import (
    SCHEMA_VERSION,
    AttemptDocument,
    CameHomeDocument,
    CopyDocument,
    FailureDocument,
    GpuUseDocument,
    LeftFilesDocument,
    LeftOutDocument,
    LogDocument,
    RunDocument,
    SnapshotDocument,
    UsageDocument,
)
from gofer.ops.runs.run_records import RunRecords, elapsed_s
from gofer.ops.submission.gpu_oversight import saw_none
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.storage.base import OnDisk
from gofer.text import format_time

if TYPE_CHECKING:
    from gofer.model.run import LedgerAttempt, RunRecord
    from gofer.ops.runs.run_folder import LogFile, RunFolder
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_NEVER_STARTED = frozenset({State.PENDING, State.QUEUED, State.PAUSED})


def run_json(session: Session, row: RunRow, *, from_store: bool = True) -> dict[str, Any]:
    """The run as plain JSON values by the schema of `run_document`; see `run_jsons`."""
    return next(run_jsons(session, [row], from_store=from_store))


def run_jsons(
    session: Session, rows: Iterable[RunRow], *, from_store: bool = True, stale: StaleRuns = NOT_STALE
) -> Iterator[dict[str, Any]]:
    """Each run as plain JSON values. The record of a group is decoded once for all its rows.

    Without `from_store`, and for a run whose files are on a machine that does not answer, only the ledger is
    read, and `logs`, `usage`, `first_failure` and `came_home` are null.
    """
    records = RunRecords(session)
    for row in rows:
        folder = session.run_folder(row, whole=True) if from_store and _left_traces(row) else None
        is_read = from_store and (folder is None or stale.can_read(session, row, folder))
        document = _document(row, records.of(row), folder if is_read else None, stale.why(row))
        if not is_read:
            document = msgspec.structs.replace(document, logs=None, usage=None)
        plain: dict[str, Any] = msgspec.to_builtins(document)
        yield plain


def _left_traces(row: RunRow) -> bool:
    """Whether the run may have files in the store. An adopted job never has."""
    return (
        not is_adopted(row) and row.kind == "run" and (bool(row.attempts) or row.state not in _NEVER_STARTED)
    )


def _document(
    row: RunRow, record: RunRecord | None, folder: RunFolder | None, stale: str | None
) -> RunDocument:
    failure = find_first_failure(folder, row) if folder else None
    is_group = row.kind == "group"
    return RunDocument(
        schema=SCHEMA_VERSION,
        id=row.id,
        short_id=row.short_id,
        kind="group" if is_group else "run",
        name=row.name,
        target=row.target,
        backend=row.backend,
        store=row.store,
        state=_state(row.state),
        reason=row.reason,
        detail=row.detail,
        why=explain(row, record, failure),
        exit_code=row.exit_code,
        command=row.command,
        gpus=row.gpus,
        nodes=row.nodes,
        procs=row.procs,
        priority=row.priority,
        submitted_at=format_time(row.submitted_at) or "",
        started_at=format_time(row.started_at),
        ended_at=format_time(row.ended_at),
        elapsed_s=elapsed_s(row),
        attempts=[_attempt(one) for one in row.attempts],
        logs=[_log(one, folder.store) for one in folder.logs] if folder else [],
        snapshot=_snapshot(row, record),
        tags=row.tags,
        group=row.group_id,
        row=row.row_index,
        args=row.args,
        first_failure=None if failure is None else _failure(failure),
        came_home=None if folder is None or is_group else _came_home(came_home(folder, row)),
        usage=[_usage(one) for one in node_usage(folder, row)] if folder else [],
        saw_no_gpu=saw_none(record),
        counts=row.counts,
        rows=row.size if is_group else None,
        resubmit_of=record.resubmit_of if record else None,
        service_id=row.service_id or None,
        observed_at=format_time(row.observed_at),
        stale=stale,
    )


def _state(word: str) -> State:
    return State(word) if word in list(State) else State.UNKNOWN


def _attempt(one: LedgerAttempt) -> AttemptDocument:
    return AttemptDocument(
        number=one["number"],
        state=_state(one["state"]),
        reason=one.get("reason"),
        detail=one.get("detail"),
        exit_code=one.get("exit_code"),
        started_at=format_time(one.get("started_at")),
        ended_at=format_time(one.get("ended_at")),
        gpus=one.get("gpus") or [],
    )


def log_json(log: LogFile, store: Store) -> dict[str, object]:
    """A log as plain JSON values, as in `logs` of a run."""
    plain: dict[str, object] = msgspec.to_builtins(_log(log, store))
    return plain


def _log(log: LogFile, store: Store) -> LogDocument:
    path = str(store.path(log.key)) if isinstance(store, OnDisk) else None
    return LogDocument(
        attempt=log.attempt, node=log.node, rank=log.rank, key=log.key, size=log.size, path=path
    )


def _snapshot(row: RunRow, record: RunRecord | None) -> SnapshotDocument | None:
    if row.snapshot is None:
        return None
    code = record.code if record else None
    return SnapshotDocument(
        id=row.snapshot,
        folder=code.folder if code else None,
        commit=code.commit if code else None,
        branch=code.branch if code else None,
        dirty=code.dirty if code else None,
    )


def _came_home(found: CameHome) -> CameHomeDocument:
    return CameHomeDocument(
        outputs=_left(found.outputs),
        files=_left(found.files),
        left_out=[LeftOutDocument(path=path, why=why) for path, why in found.left_out],
        left_out_count=found.left_count,
        copies=[CopyDocument(node=one.node, path=one.path) for one in found.copies],
        last_durable=found.last_durable or None,
    )


def _usage(use: NodeUse) -> UsageDocument:
    gpus = [GpuUseDocument(**msgspec.structs.asdict(gpu)) for gpu in use.gpus]
    return UsageDocument(
        node=use.node, at=format_time(use.at), rss_mib=use.rss_mib, rss_peak_mib=use.rss_peak_mib, gpus=gpus
    )


def _left(found: LeftFiles) -> LeftFilesDocument:
    return LeftFilesDocument(files=found.files, bytes=found.bytes, is_all=found.is_all)


def _failure(failure: FirstFailure) -> FailureDocument:
    return FailureDocument(
        attempt=failure.attempt,
        node=failure.node,
        rank=failure.rank,
        exit_code=failure.exit_code,
        signal=failure.signal,
        at=format_time(failure.at),
        tail=list(failure.tail),
    )
