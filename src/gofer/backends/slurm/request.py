"""What the nodes are told of a run, or of a whole array. Pure, and without secrets."""

from __future__ import annotations

from gofer.backends.node_request import NodeRequest, common_fields
from gofer.backends.slurm.options import SlurmOptions
from gofer.model.run import RunRecord


class Request(NodeRequest, frozen=True, kw_only=True):
    """`store` is a folder that the nodes see, None where what they write is carried to a store.

    Row i of an array has the values `rows[i]` of `columns`; a single run has no rows.
    """

    store: str | None
    scratch: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_request(record: RunRecord, options: SlurmOptions, *, store: str | None) -> Request:
    """The same request for the same record and target."""
    array = record.array
    return Request(
        **{**common_fields(record), "time_limit_s": limit_s(record, options)},
        store=store,
        scratch=options.scratch,
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
    )


def limit_s(record: RunRecord, options: SlurmOptions) -> float | None:
    """The job's own limit, or the target's."""
    if record.job.time_limit_s is not None:
        return record.job.time_limit_s
    return options.time
