"""The request for the agent on a node, in the form that all clusters share. Pure, and without secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from gofer.config.references import holds_reference
from gofer.model.job import ElasticJob, JobFolder, JobFunction, RunDependency
from gofer.model.layout import Layout
from gofer.model.run import CodeOrigin, RestoreFrom, RunRecord
from gofer.node.packages.package_files import AUTO, NONE
from gofer.text import parse_size


class CommonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of gofer.core.node_request.NodeRequest that every backend writes. Each backend adds those
    that its part of the agent needs.
    """

    id: str
    target: str
    snapshot: str | None
    code: CodeOrigin | None
    workdir: str
    stdin: int | None
    function: JobFunction | None = None
    folders: dict[str, JobFolder]
    command: tuple[str, ...]
    launcher: str
    multi_process: bool
    procs: int | None
    command_launcher: str | None
    rank_variables: str
    env: dict[str, str]
    setup: str | None
    packages: str
    wheels: str | None
    tags: dict[str, str]
    sync: tuple[str, ...]
    keep_bytes: int
    keep_group_bytes: int
    keep_most_bytes: int
    outputs: tuple[str, ...]
    layout: Layout
    memory_mib: int
    time_limit_s: float | None
    grace_s: float
    retries: int
    retry_on: tuple[str, ...]
    restore_from: RestoreFrom | None = None
    after: tuple[RunDependency, ...] = ()
    parent: str | None = None
    elastic: ElasticJob | msgspec.UnsetType = msgspec.UNSET


# The default of `sync` on clusters that may take nodes back: all outputs are uploaded during the run.
_ALL = ("*",)


def common_fields(
    record: RunRecord, *, takes_nodes_back: bool = False, packages: str = AUTO
) -> dict[str, Any]:
    """The fields of CommonRequest.

    Variables that refer to secrets are left out of `env`; they travel with the secrets. `takes_nodes_back`
    says that the cluster may take the nodes of this run for other jobs and give it new nodes later.
    `packages` applies when the job does not choose.
    """
    job = record.job
    return {
        "id": record.id,
        "target": record.target,
        "snapshot": record.snapshot,
        "code": record.code,
        "workdir": job.workdir,
        "stdin": job.stdin,
        "function": job.function,
        "folders": job.folders,
        "command": job.command,
        "launcher": job.launcher,
        "multi_process": job.multi_process,
        "procs": job.resources.procs,
        "command_launcher": job.command_launcher,
        "rank_variables": job.rank_variables,
        # A value with a reference may resolve to a secret, and the request is readable in the store.
        "env": {name: value for name, value in job.env.items() if not holds_reference(value)},
        "setup": job.setup,
        # Without a snapshot there is no list of packages to install.
        "packages": (job.packages or packages) if record.snapshot else NONE,
        "wheels": job.wheels,
        "tags": job.tags,
        "sync": (_ALL if takes_nodes_back else ()) if job.sync is None else job.sync,
        "keep_bytes": 0 if job.keep == "none" else parse_size(job.keep),
        "keep_group_bytes": parse_size(job.keep_group),
        "keep_most_bytes": parse_size(job.keep_most),
        "outputs": job.outputs,
        "layout": record.layout,
        "memory_mib": job.resources.memory_mib,
        "time_limit_s": job.time_limit_s,
        "grace_s": job.grace_s,
        "retries": job.retries,
        "retry_on": tuple(reason.value for reason in job.retry_on),
        "restore_from": record.restore_from,
        "after": job.after,
        "parent": record.parent,
        "elastic": msgspec.UNSET if job.elastic is None else job.elastic,
    }
