"""Records of runs as they would be submitted, for what is rendered of them."""

from __future__ import annotations

from typing import Any

from gofer.model.job import Array, Job, Resources
from gofer.model.layout import lay_out
from gofer.model.run import RunRecord


def record(*command: str, array: Array | None = None, gpus_per_node: int = 4, **job: Any) -> RunRecord:
    """A run of the command; `job` takes the fields of Job and of Resources."""
    resources = {name: job.pop(name) for name in ("gpus", "nodes", "procs", "cpus") if name in job}
    made = Job(command=command, resources=Resources(**resources), **job)
    return RunRecord(
        id="r261116-091233-k9qd4x",
        name="train",
        target="lab",
        backend="slurm",
        job=made,
        layout=lay_out(made, gpus_per_node=gpus_per_node, target="lab"),
        submitted_at=1794800000.0,
        submitted_by="me@laptop",
        gofer="0.1",
        array=array,
    )
