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
