"""What the nodes are told of a run, or of a whole array. Pure, and without secrets."""

from __future__ import annotations

import msgspec

from gofer.backends.slurm.options import SlurmOptions
from gofer.config.references import holds_reference
from gofer.model.job import JobFolder
from gofer.model.layout import Layout
from gofer.model.run import RunRecord


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`store` is a folder that the nodes see, None where what they write is carried to a store.

    Row i of an array has the values `rows[i]` of `columns`; a single run has no rows.
    """

    id: str
    target: str
    store: str | None
    sync: tuple[str, ...]
    snapshot: str | None
    workdir: str
    folders: dict[str, JobFolder]
    command: tuple[str, ...]
    launcher: str
    env: dict[str, str]
    setup: str | None
    tags: dict[str, str]
    layout: Layout
    time_limit_s: float | None
    grace_s: float
    retries: int
    retry_on: tuple[str, ...]
    scratch: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_request(record: RunRecord, options: SlurmOptions, *, store: str | None) -> Request:
    """Values with references are left out of `env`: they are private."""
    job, array = record.job, record.array
    return Request(
        id=record.id,
        target=record.target,
        store=store,
        sync=job.sync,
        snapshot=record.snapshot,
        workdir=job.workdir,
        folders=job.folders,
        command=job.command,
        launcher=job.launcher,
        env={name: value for name, value in job.env.items() if not holds_reference(value)},
        setup=job.setup,
        tags=job.tags,
        layout=record.layout,
        time_limit_s=limit_s(record, options),
        grace_s=job.grace_s,
        retries=job.retries,
        retry_on=tuple(reason.value for reason in job.retry_on),
        scratch=options.scratch,
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
    )


def limit_s(record: RunRecord, options: SlurmOptions) -> float | None:
    """The job's own limit, or the target's."""
    if record.job.time_limit_s is not None:
        return record.job.time_limit_s
    return options.time
