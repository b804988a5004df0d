"""What the agent on a node needs to know of a run, whatever cluster it is on. Pure, and without secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from gofer.config.references import holds_reference
from gofer.model.job import JobFolder
from gofer.model.layout import Layout
from gofer.model.run import RunRecord


class NodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or a whole array; a backend adds what its own part of the agent needs."""

    id: str
    target: str
    snapshot: str | None
    workdir: str
    folders: dict[str, JobFolder]
    command: tuple[str, ...]
    launcher: str
    env: dict[str, str]
    setup: str | None
    tags: dict[str, str]
    sync: tuple[str, ...]
    layout: Layout
    time_limit_s: float | None
    grace_s: float
    retries: int
    retry_on: tuple[str, ...]


# Outputs that go to the store while a run runs whose nodes may be taken back, where the job does not say.
_ALL = ("*",)


def common_fields(record: RunRecord, *, takes_nodes_back: bool = False) -> dict[str, Any]:
    """The fields of NodeRequest. Values with references are left out of `env`: they are private.

    With `takes_nodes_back` the cluster may take the nodes of this run for others, and give it new ones later.
    """
    job = record.job
    return {
        "id": record.id,
        "target": record.target,
        "snapshot": record.snapshot,
        "workdir": job.workdir,
        "folders": job.folders,
        "command": job.command,
        "launcher": job.launcher,
        "env": {name: value for name, value in job.env.items() if not holds_reference(value)},
        "setup": job.setup,
        "tags": job.tags,
        "sync": (_ALL if takes_nodes_back else ()) if job.sync is None else job.sync,
        "layout": record.layout,
        "time_limit_s": job.time_limit_s,
        "grace_s": job.grace_s,
        "retries": job.retries,
        "retry_on": tuple(reason.value for reason in job.retry_on),
    }
