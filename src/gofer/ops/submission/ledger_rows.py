"""The rows of the ledger for a record: one for a run, or one for a group and one for each of its rows. Pure.

Submission and rebuild both use this, so that a rebuilt ledger gives the same answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gofer.core.command import output_word
from gofer.core.files import encode
from gofer.core.states import State
from gofer.model.ids import row_id
from gofer.model.run import RunRecord
from gofer.tracking.ledger import RunRow

# The submitter of a run that gofer did not start: see `gofer.ops.runs.adopt`.
ADOPTED = "@service"


def is_adopted(row: RunRow) -> bool:
    """Whether gofer did not start this run."""
    return row.submitter == ADOPTED


def rows_of_record(
    record: RunRecord, *, store: str, submitter: str, data: bytes | None = None
) -> list[RunRow]:
    """The pending run, or the pending group followed by its rows in order.

    `store` is the store's URL. `data` are the bytes of `run.json`, if they were read.
    """
    data = encode_record(record) if data is None else data
    whole = _row_of(record, data, store=store, submitter=submitter)
    if record.array is None:
        return [whole]
    columns = record.array.columns
    return [whole, *(_row(whole, index, columns, values) for index, values in enumerate(record.array.rows))]


def encode_record(record: RunRecord) -> bytes:
    """The record in the form of `run.json`. Words of the command that are not UTF-8 are preserved."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return encode(msgspec.to_builtins(record))


def _row_of(record: RunRecord, data: bytes, *, store: str, submitter: str) -> RunRow:
    size = 1 if record.array is None else len(record.array.rows)
    return RunRow(
        id=record.id,
        kind="run" if record.array is None else "group",
        group_id=None,
        row_index=None,
        name=record.name,
        target=record.target,
        backend=record.backend,
        store=store,
        state=State.PENDING.value,
        reason=None,
        detail=None,
        exit_code=None,
        command=list(record.job.command),
        args={},
        gpus=record.job.resources.gpus,
        nodes=record.layout.nodes,
        procs=record.layout.procs_per_node,
        priority=record.job.priority,
        submitted_at=record.submitted_at,
        started_at=None,
        ended_at=None,
        elapsed_s=None,
        attempts=[],
        snapshot=record.snapshot,
        tags=dict(record.job.tags),
        counts={} if record.array is None else {State.PENDING.value: size},
        size=size,
        record=data,
        submitter=submitter,
        observed_at=None,
    )


def _row(group: RunRow, index: int, columns: Sequence[str], values: Sequence[str]) -> RunRow:
    args = dict(zip(columns, values, strict=True))
    return group._replace(
        id=row_id(group.id, index),
        kind="run",
        group_id=group.id,
        row_index=index,
        command=output_word.show(group.command, args),
        args=args,
        counts={},
        size=1,
        record=b"",
        project="",
    )
