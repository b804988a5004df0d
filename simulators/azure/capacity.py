"""Whether a job can be taken at all, and whether it fits now: nodes of a compute, quota of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulators.azure.documents import Documents
from simulators.azure.jobs import ACTIVE, SimulatedJob
from simulators.azure.messages import Json, user_error
from simulators.azure.resources import INSTANCE_TYPES


@dataclass(frozen=True)
class CapacityRequest:
    """What a job holds while it runs. `series` is empty except on a virtual cluster."""

    pool: str
    nodes: int
    gpus: int = 0
    tier: str = ""
    series: str = ""
    locations: tuple[str, ...] = ()


def need_of(job: SimulatedJob, documents: Documents) -> CapacityRequest:
    """Refused when the compute does not exist or can never hold the job."""
    compute_id = str(job.properties.get("computeId") or "")
    if not compute_id or compute_id.lower() in ("serverless", "azureml:serverless"):
        return CapacityRequest("serverless", nodes_of(job))
    if "/virtualclusters/" in compute_id.lower():
        return _quota_need(job, documents, compute_id)
    if "/" not in compute_id:
        compute_id = f"{job.workspace}/computes/{compute_id.removeprefix('azureml:')}"
    compute = documents.get("compute", compute_id)
    if compute is None:
        raise user_error(f"The compute target '{compute_id.rsplit('/', 1)[-1]}' was not found.", 404)
    nodes = nodes_of(job)
    limit = compute["sim"]["nodes"]
    if nodes > limit > 0:
        raise user_error(
            f"The requested node count {nodes} exceeds the maximum of the compute target, {limit}."
        )
    _check_instance_type(job, compute)
    return CapacityRequest(compute["id"].lower(), nodes)


def _check_instance_type(job: SimulatedJob, compute: Json) -> None:
    """Refused when a Kubernetes compute does not list the one that the job names. None means its default."""
    known = compute["properties"]["properties"].get("instanceTypes")
    wanted = job.resources.get("instanceType")
    if known is None or not wanted or wanted in known:
        return
    # That it is refused is known; the service's exact code and words are not.
    message = f"The instance type '{wanted}' is not defined on the compute target '{compute['name']}'."
    raise user_error(f"{message} Defined are: {', '.join(known)}.")


def nodes_of(job: SimulatedJob) -> int:
    return int(job.resources.get("instanceCount") or super_computer(job).get("instanceCount") or 1)


def super_computer(job: SimulatedJob) -> Json:
    """The part of the resources that speaks to Singularity; tools spell its name in several ways."""
    properties = job.resources.get("properties") or {}
    for name, value in properties.items():
        if name.lower() in ("aisupercomputer", "singularity") and isinstance(value, dict):
            return value
    return {}


def _quota_need(job: SimulatedJob, documents: Documents, compute_id: str) -> CapacityRequest:
    cluster = documents.get("virtualcluster", compute_id)
    if cluster is None:
        raise user_error(f"The virtual cluster '{compute_id.rsplit('/', 1)[-1]}' was not found.", 404)
    words = super_computer(job)
    wanted = str(job.resources.get("instanceType") or words.get("instanceType") or "")
    name = wanted.rsplit(".", 1)[-1]
    known = next((one for one in INSTANCE_TYPES if one[0].lower() == name.lower()), None)
    if known is None:
        raise user_error(
            f"The instance type '{wanted}' is not known to the virtual cluster '{cluster['name']}'."
        )
    tier = str(words.get("slaTier") or "Premium").capitalize()
    here = cluster["properties"]["managed"]["quotas"]
    asked = job.resources.get("locations") or words.get("locations") or words.get("location") or list(here)
    locations = tuple([asked] if isinstance(asked, str) else asked)
    nodes, gpus = nodes_of(job), nodes_of(job) * max(known[2], 1)
    need = CapacityRequest(cluster["id"].lower(), nodes, gpus, tier, known[1], locations)
    if not any(_limit(cluster, place, need) >= gpus for place in locations):
        most = max((_limit(cluster, place, need) for place in locations), default=0)
        what = f"{known[1]} in the {tier} tier"
        raise user_error(
            f"The job asks for {gpus} of {what}, and the quota limit of '{cluster['name']}' is {most}."
        )
    return need


def _limit(cluster: Json, location: str, need: CapacityRequest) -> int:
    rows = cluster["properties"]["managed"]["quotas"].get(location, {}).get("limits", [])
    return next((row["limit"] for row in rows if row["id"] == need.series and row["slaTier"] == need.tier), 0)


def place_for(
    job: SimulatedJob, need: CapacityRequest, documents: Documents, others: Iterable[SimulatedJob]
) -> tuple[list[str], str] | None:
    """The nodes and the location the job gets, or None when it must wait."""
    active = [other for other in others if other.status in ACTIVE and other is not job]
    if need.series:
        return _room_in_cluster(need, documents, active)
    names = [f"node-{index}" for index in range(need.nodes)]
    if need.pool == "serverless":
        return names, ""
    compute = documents.get("compute", need.pool)
    if compute is None:
        return None
    held = {node for other in active if _pool(other) == need.pool for node in other.nodes}
    held |= set(compute["sim"].get("unusable", []))
    free = [node for node in node_names(compute) if node not in held]
    return (free[: need.nodes], "") if len(free) >= need.nodes else None


def node_names(compute: Json) -> list[str]:
    return [f"tvmps_{compute['name']}_{index}" for index in range(compute["sim"]["nodes"])]


def used_by(
    cluster: Json, location: str, series: str, tier: str, jobs: Iterable[SimulatedJob], documents: Documents
) -> int:
    """GPUs that active jobs hold; an empty location or tier counts them all."""
    total = 0
    for job in jobs:
        if job.status not in ACTIVE or _pool(job) != cluster["id"].lower():
            continue
        need = _quota_need(job, documents, cluster["id"])
        fits = (not location or job.location == location) and (not tier or need.tier == tier)
        total += need.gpus if fits and need.series == series else 0
    return total


def _room_in_cluster(
    need: CapacityRequest, documents: Documents, active: list[SimulatedJob]
) -> tuple[list[str], str] | None:
    cluster = documents.get("virtualcluster", need.pool)
    if cluster is None:
        return None
    for location in need.locations:
        used = used_by(cluster, location, need.series, need.tier, active, documents)
        if used + need.gpus <= _limit(cluster, location, need):
            return [f"singularity-{index}" for index in range(need.nodes)], location
    return None


def _pool(job: SimulatedJob) -> str:
    compute_id = str(job.properties.get("computeId") or "").lower()
    if "/" in compute_id:
        return compute_id
    return f"{job.workspace}/computes/{compute_id.removeprefix('azureml:')}".lower()
