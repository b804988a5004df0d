"""Jobs found by the run history's filters, which know states and people; ARM's own list knows neither.

The history answers for one experiment at a time. Without one, all of them are asked, unless there are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gofer.backends.azureml.service import Service, each
from gofer.backends.azureml.states import statuses_of
from gofer.backends.azureml.status_parse import error_of, from_job, stamp
from gofer.backends.base import JobFilter
from gofer.errors import GoferError
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound

Run = Mapping[str, Any]
_MOST_EXPERIMENTS = 50
_PAGE = 100


def find(service: Service, wanted: JobFilter) -> list[Run] | None:
    """The runs that fit, newest first, as many as `most`; None when the history cannot be asked that way.

    People are asked for by their whole names. Who gave a part of one finds nothing here, and that is None.
    """
    question = filter_of(wanted)
    if question is None or wanted.tag or wanted.name_end:
        return None
    query = {"filter": question, "orderBy": "createdUtc desc", "top": min(wanted.most, _PAGE)}
    if not question:
        del query["filter"]
    try:
        found = _asked(service, wanted, query)
    except RequestRejected:
        return None  # a service that does not take such a filter
    if found is None or (wanted.user and not found):
        return None
    return sorted(found, key=lambda run: stamp(run.get("createdUtc")) or 0.0, reverse=True)[: wanted.most]


def filter_of(wanted: JobFilter) -> str | None:
    """The question in the history's language; None when it cannot be said, or there is none. Pure."""
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


def _asked(service: Service, wanted: JobFilter, query: dict[str, Any]) -> list[Run] | None:
    if wanted.experiment:
        try:
            return _of(service, "experiments", wanted.experiment, wanted, query)
        except ResourceNotFound:
            return []
    names = service.experiments(_MOST_EXPERIMENTS + 1)
    if len(names) > _MOST_EXPERIMENTS:
        return None
    found: list[Run] = []
    for one in each(lambda name: _of(service, "experimentids", name, wanted, query), names):
        if isinstance(one, GoferError):
            raise one
        found += one
    return found


def _of(service: Service, kind: str, experiment: str, wanted: JobFilter, query: dict[str, Any]) -> list[Run]:
    found: list[Run] = []
    for page in service.runs(kind, experiment, query):
        found += [run for run in page if _fits(run, wanted)]
        if len(found) >= wanted.most:
            break
    return found


def _fits(run: Run, wanted: JobFilter) -> bool:
    """Parts of other jobs are left out, as ARM's list does; a status may mean more than one state."""
    is_whole = run.get("rootRunId") in (None, run.get("runId"))
    return is_whole and (not wanted.states or state_of(run) in wanted.states)


def state_of(run: Run) -> str:
    """Its state in gofer's words."""
    tags = {str(name): str(value) for name, value in (run.get("tags") or {}).items()}
    told = {"state": str(run.get("status") or "Unknown"), "tags": tags, "error": error_of(run)}
    return from_job(str(run.get("runId")), told).state
