"""What a target has, and why its runs wait: asks the service, and blocks."""

from __future__ import annotations

from gofer.backends.azureml import facts
from gofer.backends.azureml.connection import AzureConnection
from gofer.backends.azureml.service import each
from gofer.backends.azureml.status import trim
from gofer.backends.base import NodeFacts, RunRef, Waiting
from gofer.errors import CheckFailed, GoferError

_WAITING = ("Queued", "NotStarted", "Scheduled")


def describe(connection: AzureConnection) -> dict[str, object]:
    """The facts of the compute, or of the virtual cluster with its quotas and instance types."""
    options, service = connection.options, connection.service
    if options.platform != "singularity":
        return facts.compute_facts(service.compute(options.compute or ""))
    name = options.virtual_cluster or ""
    cluster = service.virtual_cluster(name)
    managed = (cluster.get("properties") or {}).get("managed") or {}
    # Without locations in the target, ask for those that the cluster has quotas in.
    places = list(options.locations or managed.get("locations") or sorted(managed.get("quotas") or {}))
    found = each(lambda place: service.instance_types(name, place), places)
    types = {
        place: answer
        for place, answer in zip(places, found, strict=True)
        if not isinstance(answer, GoferError)
    }
    return {"sla": options.tier, **facts.cluster_facts(cluster, types)}


def instance_type(connection: AzureConnection, gpus: int) -> str | None:
    """The instance type of a node with `gpus` GPUs: the one that the target names, else on Kubernetes the
    smallest that the compute has; None where the service decides. Asks the compute once for a connection.

    CheckFailed when the compute has no instance type with so many GPUs.
    """
    options = connection.options
    if options.instance_type or options.platform != "itp" or not gpus:
        return options.instance_type
    found = facts.instance_type_for(connection.compute, gpus)
    if found is None:
        counts = facts.instance_type_gpus(connection.compute)
        known = ", ".join(f"`{name}` ({count} GPUs)" for name, count in counts.items())
        raise CheckFailed(
            f"the compute `{options.compute}` of the target `{connection.target}` has no instance type with "
            f"{'a GPU' if gpus == 1 else f'{gpus} GPUs'}",
            hint=f"the compute has {known or 'no instance types'}; ask its owner for one with {gpus}, or for "
            "fewer GPUs a node with `-n` and `gpus_per_node:` of the target",
        )
    return found


def list_nodes(connection: AzureConnection) -> list[NodeFacts]:
    """The nodes of a compute; CheckFailed for a target that is a share of a cluster."""
    options = connection.options
    if options.platform != "aml":
        raise CheckFailed(
            f"the target `{connection.target}` is a share of a cluster, whose nodes cannot be listed",
            hint=f"`gofer target show {connection.target}` shows what the target has",
        )
    return facts.nodes(connection.service.nodes(options.compute or ""), options)


def waiting(connection: AzureConnection, run: RunRef) -> Waiting | None:
    """Why the run waits; None for a run that does not wait or that the service does not know."""
    job = connection.service.job(run.id)
    if job is None:
        return None
    trimmed = trim(job)
    try:
        found = describe(connection) if trimmed["state"] in _WAITING else {}
        if isinstance(found.get("quota"), list):
            found["quota"] = facts.quotas_for(connection.options, found)
    except GoferError:
        found = {}  # a person may run jobs without the right to read quotas
    return facts.waiting(trimmed["state"], trimmed["tags"], found)
