"""Asks the service about runs: one listing for many runs, single questions for few. Returns plain JSON."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping
from typing import Any

from gofer.backends.azureml.body import TAG
from gofer.backends.azureml.service import Service, each
from gofer.backends.azureml.status_parse import error_of, trim
from gofer.errors import GoferError
from gofer.text import parse_time
from gofer.transport.azure.arm import Json

# Up to this many runs get one request each, which is cheaper than a page of the listing.
_FEW = 3
# How far the clocks of a laptop and of the service may differ.
_SKEW_S = 6 * 3600.0


class JobQuestion:
    """One question about many runs. `problem` is the first error of a run that could not be asked about."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.problem: GoferError | None = None

    def __call__(self, runs: Mapping[str, Any]) -> dict[str, Any]:
        """The answer for gofer.backends.polling: jobs, and the names that the service does not know."""
        found: dict[str, Json] = {}
        if len(runs) > _FEW:
            self._list(set(runs), found)
        left = [name for name in runs if name not in found]
        # Jobs that the listing did not contain are looked up by name before they count as missing.
        gone = self._ask(left, found)
        self._explain(found)
        return {"jobs": list(found.values()), "gone": {name: {"rows": [None]} for name in gone}, "ends": {}}

    def _list(self, wanted: set[str], found: dict[str, Json]) -> None:
        # Listings are newest first, so reading can stop at jobs older than every wanted run.
        oldest = min((made_at(name) or 0.0 for name in wanted), default=0.0)
        try:
            for page in self._service.jobs(tag=TAG, jobType="Command"):
                found.update((job["name"], trim(job)) for job in page if job.get("name") in wanted)
                if len(found) == len(wanted) or _is_before(page, oldest - _SKEW_S):
                    return
        except GoferError as error:
            self.problem = error

    def _ask(self, left: list[str], found: dict[str, Json]) -> list[str]:
        """Look up runs one by one; return those that the service does not know."""
        if self.problem is not None:
            return []
        gone = []
        for name, job in zip(left, each(self._service.job, left), strict=True):
            if isinstance(job, GoferError):
                self.problem = self.problem or job
            elif job is None:
                gone.append(name)
            else:
                found[name] = trim(job)
        return gone

    def _explain(self, found: dict[str, Json]) -> None:
        """Add the reasons of failures that the jobs themselves do not contain.

        Errors are ignored: without a reason the jobs are still known to have failed.
        """
        failed = [name for name, job in found.items() if job["state"] in ("Failed", "Canceled")]
        silent = [name for name in failed if not found[name].get("error")]
        for name, details in zip(silent, each(self._service.details, silent), strict=True):
            if isinstance(details, dict):
                found[name]["error"] = error_of(details)


def made_at(run_id: str) -> float | None:
    """When a run's id was made, which is part of the id; None for other names."""
    try:
        return float(calendar.timegm(time.strptime(run_id[1:14], "%y%m%d-%H%M%S")))
    except ValueError:
        return None


def _is_before(page: Iterable[Json], at: float) -> bool:
    """Whether the listing, newest first, has reached jobs older than `at`."""
    stamps = [(job.get("systemData") or {}).get("createdAt") for job in page]
    return bool(stamps) and stamps[-1] is not None and parse_time(str(stamps[-1])[:19] + "Z") < at
