"""Finds jobs with the filters of the run history, which can select states and people; ARM's list cannot.

The history answers for one experiment at a time. Without an experiment in the question, gofer asks for each
experiment, unless there are more than 50.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gofer.backends.azureml.service import Service, each
from gofer.backends.azureml.status import error_of, from_job, stamp, statuses_of
from gofer.backends.base import JobFilter
from gofer.errors import GoferError
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound

Run = Mapping[str, Any]
_MOST_EXPERIMENTS = 50
_PAGE = 100


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
        found += [run for run in page if _fits(run, wanted)]
        if len(found) >= wanted.most:
            break
    return found


def _fits(run: Run, wanted: JobFilter) -> bool:
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
