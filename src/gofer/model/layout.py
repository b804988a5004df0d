"""How many nodes, processes and GPUs a job becomes on a target: arithmetic, no I/O."""

from __future__ import annotations

import msgspec

from gofer.errors import CheckFailed
from gofer.model.bounds import Count
from gofer.model.job import Job


class Layout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The shape of one attempt; the same on every node.

    With `first_node_only` the first node alone has processes of the run, which may use the others.
    `unseen_gpus` are GPUs of a node that the run did not ask for, and so does not see.
    """

    nodes: Count
    gpus_per_node: Count
    procs_per_node: Count
    cpus_per_proc: Count
    first_node_only: bool = False
    unseen_gpus: Count = 0

    @property
    def world_size(self) -> int:
        return self.procs_per_node if self.first_node_only else self.nodes * self.procs_per_node


def lay_out(job: Job, *, gpus_per_node: int, target: str) -> Layout:
    """The layout of `job` on nodes of `gpus_per_node` GPUs (0: none); CheckFailed when it does not divide."""
    asked = job.resources
    nodes = _count_nodes(asked.gpus, asked.nodes, gpus_per_node, target)
    on_node = asked.gpus // nodes
    procs = (asked.procs or max(on_node, 1)) if job.multi_process else 1
    cpus = asked.cpus or 1
    if job.launcher == "torchrun":  # gofer starts one torchrun a node, and torchrun the others
        procs, cpus = 1, cpus * procs
    return Layout(
        nodes=nodes,
        gpus_per_node=on_node,
        procs_per_node=procs,
        cpus_per_proc=cpus,
        first_node_only=nodes > 1 and job.starts_once,
    )


def _count_nodes(gpus: int, nodes: int | None, per_node: int, target: str) -> int:
    if gpus < 0 or (nodes is not None and nodes < 1):
        raise CheckFailed(f"{gpus} GPUs on {nodes} nodes is not a request that can be met")
    if gpus and not per_node:
        raise CheckFailed(
            f"the target `{target}` has no GPUs and {gpus} were asked for",
            hint="leave `-n` out, choose another target with `-t`, or set `gpus:` in the target",
        )
    if nodes is None:
        nodes = 1 if gpus <= per_node else -(-gpus // per_node)
        if gpus > per_node and gpus % per_node:
            raise CheckFailed(
                f"{gpus} GPUs do not divide into nodes of {per_node} on the target `{target}`",
                hint=f"ask for {gpus - gpus % per_node} or {gpus + per_node - gpus % per_node} with `-n`",
            )
    if gpus % nodes or gpus // nodes > per_node:
        raise CheckFailed(
            f"{gpus} GPUs do not divide over {nodes} nodes of at most {per_node} GPUs on `{target}`",
            hint=f"`-n` must be a multiple of {nodes}, at most {nodes * per_node}",
        )
    return nodes
