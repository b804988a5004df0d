"""Jobs of the service, including those that gofer did not start."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.azureml.plan import TAG
from gofer.backends.azureml.service import Service, each
from gofer.backends.azureml.status import error_of, from_job, stamp, trim
from gofer.backends.base import JobFilter, ServiceJob
from gofer.core.states import State
from gofer.errors import GoferError

Json = Mapping[str, Any]


class Nodes(NamedTuple):
    """The nodes of the target's compute: the compute's ARM id, and the number of GPUs in a node."""

    compute_id: str
    gpus: int


# Stop reading a listing after this many jobs: a filter that matches little would read years of history.
_MOST_LOOKED_AT = 5000


def jobs(service: Service, wanted: JobFilter, known: Nodes) -> list[ServiceJob]:
    """The jobs that match `wanted`, newest first.

    The service filters where it can: ARM's list by tag, the run history by state, experiment and person.
    This function applies the other conditions.
    """
    from gofer.backends.azureml.run_query import find

    runs = find(service, wanted)
    if runs is not None:
        return _named(service, runs, known)
    query = {"jobType": "Command", **({"tag": wanted.tag} if wanted.tag else {})}
    found: list[ServiceJob] = []
    for entry in _first(service.jobs(**query), wanted.within_s):
        if len(found) >= wanted.most:
            break
        job = read_job(entry, known)
        if _fits(job, wanted):
            found.append(job)
    return found


def _named(service: Service, runs: Sequence[Json], known: Nodes) -> list[ServiceJob]:
    """The jobs that belong to runs of the history.

    The history knows why a run failed, but not its resources.
    """
    found = each(lambda run: service.job(str(run["runId"])), runs)
    made: list[ServiceJob] = []
    for run, entry in zip(runs, found, strict=True):
        if isinstance(entry, GoferError):
            raise entry
        properties = (entry or {}).get("properties") or {}
        # The history also has sweeps, pipelines and deleted jobs.
        if entry is not None and properties.get("jobType") == "Command":
            error = properties.get("error") or error_of(run)
            made.append(read_job({**entry, "properties": {**properties, "error": error}}, known))
    return made


def job(service: Service, name: str, known: Nodes) -> ServiceJob | None:
    """One job, with the reason of its failure from the run history; None when the service has no such job."""
    found = service.job(name)
    if found is None:
        return None
    properties = found.get("properties") or {}
    if properties.get("status") in ("Failed", "Canceled") and not properties.get("error"):
        properties = {**properties, "error": error_of(service.details(name) or {})}
    return read_job({**found, "properties": properties}, known)


def _first(pages: Iterator[list[dict[str, Any]]], within_s: float | None) -> Iterator[dict[str, Any]]:
    seen, began = 0, time.monotonic()
    for page in pages:
        yield from page
        seen += len(page)
        if seen >= _MOST_LOOKED_AT or (within_s is not None and time.monotonic() - began > within_s):
            return


def _fits(job: ServiceJob, wanted: JobFilter) -> bool:
    return (
        (not wanted.states or job.state in wanted.states)
        and (not wanted.experiment or job.experiment == wanted.experiment)
        and (not wanted.user or wanted.user.lower() in job.user.lower())
        and job.name.endswith(wanted.name_end)
    )


def read_job(entry: Json, known: Nodes) -> ServiceJob:
    """The service's description of a job as a ServiceJob. Pure.

    For a job that gofer started, `command` is the user's command, not the command line that starts the agent.
    """
    properties, made = entry.get("properties") or {}, entry.get("systemData") or {}
    trimmed = trim(entry)
    seen = from_job(str(entry.get("name")), trimmed)
    resources, tags = properties.get("resources") or {}, properties.get("tags") or {}
    nodes = int(resources.get("instanceCount") or 1)
    compute_id = str(properties.get("computeId") or "")
    # ARM ids ignore case, and the service returns them in several spellings.
    is_here = compute_id.lower() == known.compute_id.lower()
    procs = int((properties.get("distribution") or {}).get("processCountPerInstance") or 1)
    studio = (properties.get("services") or {}).get("Studio") or {}
    return ServiceJob(
        name=str(entry.get("name")),
        state=seen.state,
        status=trimmed["state"],
        display_name=str(properties.get("displayName") or ""),
        experiment=str(properties.get("experimentName") or ""),
        user=str(made.get("createdBy") or ""),
        command=str((TAG in tags and properties.get("description")) or properties.get("command") or ""),
        nodes=nodes,
        procs_per_node=procs,
        gpus=known.gpus * nodes if is_here else None,
        compute=compute_id.rpartition("/")[2],
        created_at=stamp(made.get("createdAt")),
        started_at=trimmed["start"],
        ended_at=trimmed["end"] if seen.state.is_final else None,
        tags={str(name): str(value) for name, value in tags.items()},
        portal=str(studio.get("endpoint") or ""),
        error=seen.detail or "" if seen.state in (State.FAILED, State.UNKNOWN) else "",
        is_ours=TAG in tags,
    )
