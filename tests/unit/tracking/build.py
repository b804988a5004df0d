"""Lines for ledgers under test."""

from __future__ import annotations

from typing import Any

from gofer.model.ids import row_id
from gofer.tracking.rows import RunRow

NOW = 1794820353.0

_PLAIN = RunRow(
    id="r261116-091233-bbbbbb",
    kind="run",
    group_id=None,
    row_index=None,
    name="train",
    target="local",
    backend="local",
    store="file:///store",
    state="pending",
    reason=None,
    detail=None,
    exit_code=None,
    command=["python", "train.py"],
    args={},
    gpus=0,
    nodes=1,
    procs=1,
    priority=0,
    submitted_at=NOW,
    started_at=None,
    ended_at=None,
    elapsed_s=None,
    attempts=[],
    snapshot=None,
    tags={},
    counts={},
    size=1,
    record=b'{"a": "record"}',
    submitter="1:2:boot",
    observed_at=None,
)


def run(run_id: str = _PLAIN.id, **values: Any) -> RunRow:
    """A run that was just recorded, but for the values given."""
    return _PLAIN._replace(id=run_id, **values)


def group(group_id: str, size: int, **values: Any) -> list[RunRow]:
    """A group and its rows; the values go to all of them."""
    head = run(group_id, kind="group", size=size, **values)
    return [head] + [
        head._replace(
            id=row_id(group_id, i),
            kind="run",
            group_id=group_id,
            row_index=i,
            size=1,
            record=b"",
            args={"i": str(i)},
        )
        for i in range(size)
    ]
