"""What a target has, and why its runs wait: asks the service, and blocks."""

from __future__ import annotations

from collections.abc import Sequence

from gofer.backends.azureml import facts
from gofer.backends.azureml.connection import AzureConnection
from gofer.backends.azureml.service import each
from gofer.backends.azureml.status import trim
from gofer.backends.base import NodeFacts, RunRef, Waiting
from gofer.errors import BackendError, CheckFailed, CredentialError, GoferError
from gofer.model.job import Resources

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


def check_nodes(connection: AzureConnection, nodes: int) -> None:
    """CheckFailed for more nodes than the compute can ever have. Asks only about runs of several nodes."""
    if nodes == 1 or connection.options.platform != "aml":
        return
    try:
        most = facts.most_nodes(connection.compute)
    except (BackendError, CredentialError):
        return  # a plan needs no service, and a submission asks it again and reports the error
    if most is not None and nodes > most:
        raise CheckFailed(
            f"the run needs {nodes} nodes, and the compute `{connection.options.compute}` of the target "
            f"`{connection.target}` has at most {most}",
            hint=f"ask for at most {most} with `-N`, or choose another target with `-t`",
        )


def instance_type(connection: AzureConnection, asked: Resources, gpus: int) -> str | None:
    """The instance type of a node with `gpus` GPUs and what else the job asks for: the one that the target
    names, else the smallest that fits; None where the service decides. Asks the service at most once for a
    connection, and only where it has to choose or to check.

    CheckFailed when there is no such instance type, and for what the service cannot be asked for.
    """
    options = connection.options
    wanted = asked.gpu_type if gpus else None
    if options.platform == "aml":
        _check_size(connection, asked, wanted)
        return options.instance_type
    if asked.memory is not None and options.platform == "singularity":
        raise CheckFailed(
            f"the service does not say how much memory the instance types of the target "
            f"`{connection.target}` have, so `--memory` cannot be followed",
            hint="leave `--memory` out; `instance_type:` of the target chooses the machine",
        )
    is_open = options.platform == "itp" and options.instance_type is None and gpus
    if not is_open and wanted is None and asked.memory is None:
        return options.instance_type
    types = _instance_types(connection)
    found = facts.smallest_type(types, gpus, wanted, asked.memory_mib)
    if found is None:
        known = ", ".join(f"`{one.name}` ({one.gpus} GPUs)" for one in types)
        where = f"compute `{options.compute}`" if options.platform == "itp" else "virtual cluster"
        count = "a GPU" if gpus == 1 else f"{gpus} GPUs"
        of_type = f" of the type `{wanted}`" if wanted else ""
        with_memory = f" and {asked.memory} of memory" if asked.memory is not None else ""
        raise CheckFailed(
            f"the {where} of the target `{connection.target}` has no instance type with {count}{of_type}"
            f"{with_memory}",
            hint=f"there is {known or 'no instance type'}; ask for what one of them has, or for fewer GPUs "
            "on a node with `-n` and `gpus_per_node:` of the target",
        )
    return found.name


def _check_size(connection: AzureConnection, asked: Resources, wanted: str | None) -> None:
    """CheckFailed unless the compute's machines, which are all of one size, are what the job asks for."""
    if asked.memory is None and wanted is None:
        return
    size, options = facts.size_of(connection.compute), connection.options
    if asked.memory is not None:
        raise CheckFailed(
            f"every node of the compute `{options.compute}` is a whole machine of the size `{size}`, so "
            "`--memory` cannot be chosen",
            hint="leave `--memory` out, or choose another target with `-t`",
        )
    if wanted is not None and not facts.has_gpu_of_type(size, wanted):
        raise CheckFailed(
            f"the job asks for GPUs of the type `{wanted}`, but the machines of the compute "
            f"`{options.compute}` are of the size `{size}`",
            hint="leave `--gpu-type` out, or choose another target with `-t`",
        )


def _instance_types(connection: AzureConnection) -> Sequence[facts.InstanceType]:
    if connection.options.platform == "itp":
        return facts.kubernetes_types(connection.compute)
    rows = describe(connection).get("instance_types")
    return facts.singularity_types(rows if isinstance(rows, list) else [])


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
