"""Jobs of the service, including those that gofer did not start.

They are listed by ARM, and by the run history where states and people are selected, which ARM's list
cannot do. The history answers for one experiment at a time: without an experiment in the question, gofer
asks for each experiment, unless there are more than 50.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.azureml.plan import TAG
from gofer.backends.azureml.service import Service, each
from gofer.backends.azureml.status import error_of, from_job, stamp, statuses_of, trim
from gofer.backends.base import JobFilter, JobSearch, ServiceJob
from gofer.core.states import State
from gofer.errors import GoferError
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound

Json = Mapping[str, Any]
Run = Mapping[str, Any]
_MOST_EXPERIMENTS = 50
_PAGE = 100


class Nodes(NamedTuple):
    """The nodes of the target's compute: the compute's ARM id, and the number of GPUs in a node."""

    compute_id: str
    gpus: int


def jobs(service: Service, wanted: JobFilter, known: Nodes) -> list[ServiceJob]:
    """The jobs that match `wanted`, newest first.

    The service filters where it can: ARM's list by tag, the run history by state, experiment and person.
    This function applies the other conditions.
    """

    runs = find(service, wanted)
    if runs is not None:
        return _named(service, runs, known)
    query = {"jobType": "Command", **({"tag": wanted.tag} if wanted.tag else {})}
    found: list[ServiceJob] = []
    search = wanted.search or JobSearch()
    for page in service.jobs(**query):
        some = [read_job(entry, known) for entry in page]
        found += [one for one in some if _fits(one, wanted)]
        search.note(len(some), some[-1].created_at if some else None)
        if len(found) >= wanted.most or search.is_over(has_found=bool(found)):
            break
    return found[: wanted.most]


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


def find(service: Service, wanted: JobFilter) -> list[Run] | None:
    """The runs that match, newest first, at most `wanted.most`; None when the history cannot answer the
    question.

    The history matches complete names of people. A part of a name finds nothing, so an empty answer to a
    question about a person is None too: the caller then searches ARM's list.
    """
    question = filter_of(wanted)
    if question is None or wanted.tag or wanted.name_end:
        return None
    query = {"filter": question, "orderBy": "createdUtc desc", "top": min(wanted.most, _PAGE)}
    if not question:
        del query["filter"]
    try:
        found = _ask_experiments(service, wanted, query)
    except RequestRejected:
        return None  # this service does not accept the filter
    # An empty answer about a person may only mean that the name was incomplete; see above.
    if found is None or (wanted.user and not found):
        return None
    return sorted(found, key=lambda run: stamp(run.get("createdUtc")) or 0.0, reverse=True)[: wanted.most]


def filter_of(wanted: JobFilter) -> str | None:
    """The history's filter expression; None when the history has no filter for the question. Pure."""
    if not (wanted.states or wanted.experiment or wanted.user):
        return None
    parts = []
    if wanted.states:
        words = statuses_of(wanted.states)
        if not words:
            return None
        some = " or ".join(f"status eq {_quoted(word)}" for word in words)
        parts.append(f"({some})" if len(words) > 1 else some)
    if wanted.user:
        parts.append(f"createdBy/userName eq {_quoted(wanted.user)}")
    return " and ".join(parts)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _ask_experiments(service: Service, wanted: JobFilter, query: dict[str, Any]) -> list[Run] | None:
    if wanted.experiment:
        try:
            return _of(service, "experiments", wanted.experiment, wanted, query)
        except ResourceNotFound:
            return []
    names = service.experiments(_MOST_EXPERIMENTS + 1)
    if len(names) > _MOST_EXPERIMENTS:
        return None
    found: list[Run] = []
    for answer in each(lambda name: _of(service, "experimentids", name, wanted, query), names):
        if isinstance(answer, GoferError):
            raise answer
        found += answer
    return found


def _of(service: Service, kind: str, experiment: str, wanted: JobFilter, query: dict[str, Any]) -> list[Run]:
    found: list[Run] = []
    for page in service.runs(kind, experiment, query):
        found += [run for run in page if _run_fits(run, wanted)]
        if len(found) >= wanted.most:
            break
    return found


def _run_fits(run: Run, wanted: JobFilter) -> bool:
    """Whether the run is a job of its own, not a part of another job, and in a wanted state.

    The state is checked again because one status of the service can stand for several states.
    """
    is_whole = run.get("rootRunId") in (None, run.get("runId"))
    return is_whole and (not wanted.states or state_of(run) in wanted.states)


def state_of(run: Run) -> str:
    """The run's state in gofer's terms."""
    tags = {str(name): str(value) for name, value in (run.get("tags") or {}).items()}
    job = {"state": str(run.get("status") or "Unknown"), "tags": tags, "error": error_of(run)}
    return from_job(str(run.get("runId")), job).state
