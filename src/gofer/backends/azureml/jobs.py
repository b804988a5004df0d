"""The jobs of the service, whoever started them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.azureml.body import TAG
from gofer.backends.azureml.service import Service, each
from gofer.backends.azureml.status_parse import error_of, from_job, stamp, trim
from gofer.backends.base import JobFilter, ServiceJob
from gofer.core.states import State
from gofer.errors import GoferError

Json = Mapping[str, Any]


class Nodes(NamedTuple):
    """Of the target's compute: its ARM id, and the GPUs that a node has."""

    compute_id: str
    gpus: int


# A listing that finds too little is given up after so many jobs.
_MOST_LOOKED_AT = 5000


def jobs(service: Service, wanted: JobFilter, known: Nodes) -> list[ServiceJob]:
    """Newest first. The service does the narrowing: ARM's list by tag, the run history by state, experiment
    and person. What neither can say is narrowed by here.
    """
    from gofer.backends.azureml.run_query import find

    runs = find(service, wanted)
    if runs is not None:
        return _named(service, runs, known)
    query = {"jobType": "Command", **({"tag": wanted.tag} if wanted.tag else {})}
    found: list[ServiceJob] = []
    for one in _first(service.jobs(**query), wanted.within_s):
        if len(found) >= wanted.most:
            break
        job = read_job(one, known)
        if _fits(job, wanted):
            found.append(job)
    return found


def _named(service: Service, runs: Sequence[Json], known: Nodes) -> list[ServiceJob]:
    """The jobs behind runs of the history, which knows why they failed and not what they are."""
    found = each(lambda run: service.job(str(run["runId"])), runs)
    made: list[ServiceJob] = []
    for run, one in zip(runs, found, strict=True):
        if isinstance(one, GoferError):
            raise one
        said = (one or {}).get("properties") or {}
        if one is not None and said.get("jobType") == "Command":
            told = {**one, "properties": {**said, "error": said.get("error") or error_of(run)}}
            made.append(read_job(told, known))
    return made


def job(service: Service, name: str, known: Nodes) -> ServiceJob | None:
    """With the reason of its failure, which only the run history knows."""
    found = service.job(name)
    if found is None:
        return None
    said = found.get("properties") or {}
    if said.get("status") in ("Failed", "Canceled") and not said.get("error"):
        said = {**said, "error": error_of(service.details(name) or {})}
    return read_job({**found, "properties": said}, known)


def _first(pages: Iterator[list[dict[str, Any]]], within_s: float | None) -> Iterator[dict[str, Any]]:
    looked, began = 0, time.monotonic()
    for page in pages:
        yield from page
        looked += len(page)
        if looked >= _MOST_LOOKED_AT or (within_s is not None and time.monotonic() - began > within_s):
            return


def _fits(job: ServiceJob, wanted: JobFilter) -> bool:
    return (
        (not wanted.states or job.state in wanted.states)
        and (not wanted.experiment or job.experiment == wanted.experiment)
        and (not wanted.user or wanted.user.lower() in job.user.lower())
        and job.name.endswith(wanted.name_end)
    )


def read_job(one: Json, known: Nodes) -> ServiceJob:
    """Pure. Of a job of gofer's the command is the person's, which the agent runs."""
    said, made = one.get("properties") or {}, one.get("systemData") or {}
    trimmed = trim(one)
    seen = from_job(str(one.get("name")), trimmed)
    resources, tags = said.get("resources") or {}, said.get("tags") or {}
    nodes = int(resources.get("instanceCount") or 1)
    compute_id = str(said.get("computeId") or "")
    is_here = compute_id.lower() == known.compute_id.lower()
    procs = int((said.get("distribution") or {}).get("processCountPerInstance") or 1)
    studio = (said.get("services") or {}).get("Studio") or {}
    return ServiceJob(
        name=str(one.get("name")),
        state=seen.state,
        status=trimmed["state"],
        display_name=str(said.get("displayName") or ""),
        experiment=str(said.get("experimentName") or ""),
        user=str(made.get("createdBy") or ""),
        command=str((TAG in tags and said.get("description")) or said.get("command") or ""),
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
