"""Submitting runs whose number of nodes may change: what is refused, and the key of their agents."""

from __future__ import annotations

import os

from gofer.backends.base import Backend
from gofer.core.secrets.run_secrets import ELASTIC_KEY, RunSecrets
from gofer.errors import CheckFailed
from gofer.model.job import Array, Job

_KEY_BYTES = 32


def check_elastic(job: Job, backend: Backend, target: str) -> None:
    """CheckFailed when the number of nodes of the job may change, and target or command allow no change."""
    if job.elastic is None:
        return
    least, most = job.elastic.min_nodes, job.elastic.max_nodes
    if not backend.capabilities.elastic:
        raise CheckFailed(
            f"the target `{target}` of kind `{backend.kind}` cannot change the number of nodes of a run, "
            f"and {least} to {most} were asked for",
            hint=f"ask for a fixed number with `--nodes {most}`, or choose a target of kind `local`",
        )
    if job.launcher != "spawn" or job.starts_once or job.function is not None:
        raise CheckFailed(
            f"only a command that gofer starts on each node can run on {least} to {most} nodes",
            hint=f"leave the launcher out, or ask for a fixed number with `--nodes {most}`",
        )


def check_no_rows(job: Job, array: Array | None) -> None:
    """CheckFailed for an array of runs whose number of nodes may change."""
    if job.elastic is not None and array is not None:
        raise CheckFailed(
            "the rows of an array have a fixed number of nodes",
            hint=f"leave `--each` and `--array` out, or ask for `--nodes {job.elastic.max_nodes}`",
        )


def with_elastic_key(private: RunSecrets) -> RunSecrets:
    """The secrets of a run with a new key, by which its agents know each other."""
    environment = {**private.environment, ELASTIC_KEY: os.urandom(_KEY_BYTES).hex()}
    return private._replace(environment=environment, secrets=[*private.secrets, ELASTIC_KEY])
