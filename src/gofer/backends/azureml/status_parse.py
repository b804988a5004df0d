"""Derives the state of each run from the service's answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gofer.backends.azureml.notes import RunNote
from gofer.backends.azureml.states import KUBERNETES_STATUS, meaning_of, reason_of
from gofer.backends.base import RunRef
from gofer.backends.polling import Said
from gofer.backends.scheduled import forgotten
from gofer.core.states import Reason, State
from gofer.model.run import Observation
from gofer.transport.azure.problems import innermost, one_line

Job = Mapping[str, Any]
_TAGS = (KUBERNETES_STATUS, "ssh")


def trim(job: Job) -> dict[str, Any]:
    """The part of a job that gofer keeps between commands: its state, but not its inputs or variables."""
    report = job.get("properties") or {}
    more, tags = report.get("properties") or {}, report.get("tags") or {}
    return {
        "name": job.get("name"),
        "row": None,
        "state": str(report.get("status") or "Unknown"),
        "tags": {name: str(tags[name]) for name in _TAGS if name in tags},
        "start": stamp(more.get("StartTimeUtc")),
        "end": stamp(more.get("EndTimeUtc")),
        "error": error_of(report),
    }


def error_of(report: Job) -> dict[str, str] | None:
    """Code and message of a job's or a run's error; None when it has no error."""
    error = report.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    if not isinstance(error, Mapping):
        return None
    code, message = innermost(error), one_line(error.get("message") or "")
    return {"code": code, "message": message} if code or message else None


def stamp(text: object) -> float | None:
    """Seconds since the epoch for `2024-03-01 12:00:05` or an RFC 3339 time, both in UTC."""
    found = re.match(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?", str(text or ""))
    if not found:
        return None
    from gofer.text import parse_time

    return parse_time(f"{found[1]}T{found[2]}{(found[3] or '')[:7]}Z")


class AzureStatus:
    """One answer of the service. `notes` are those of the requests that this machine sent, by request id."""

    def __init__(
        self, report: Said, notes: Mapping[str, RunNote | None], *, patience_s: float, now: float
    ) -> None:
        self._jobs = {str(job["name"]): job for job in report.jobs}
        self._said = report
        self._notes = notes
        self._patience_s = patience_s
        self._now = now

    def of(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        """The observations of the runs. Runs that were never sent to the service are left out."""
        found = ((run.id, self._of(run)) for run in runs)
        return {run_id: entry for run_id, entry in found if entry is not None}

    def _of(self, run: RunRef) -> Observation | None:
        job = self._jobs.get(run.id)
        if job is not None:
            return from_job(run.id, job)
        note = self._notes.get(run.group or run.id)
        if note is None or run.id not in self._said.gone:
            return None
        if note.rejected:
            return Observation(
                run_id=run.id,
                state=State.FAILED,
                reason=Reason.REJECTED,
                detail=note.rejected,
                ended_at=note.at,
            )
        return self._from_nothing(run) if note.is_sent else None

    def _from_nothing(self, run: RunRef) -> Observation:
        """The run was sent, but the service has no such job: its folder may say more, otherwise the run is
        lost.
        """
        since = self._said.missing.get(run.id, self._now)
        words = "the service no longer has a job of that name, and no node recorded an outcome"
        for_s = self._now - since
        return forgotten(run.id, words, for_s=for_s, patience_s=self._patience_s, now=self._now)


def from_job(run_id: str, job: Job) -> Observation:
    """The observation of one job in the form of `trim`."""
    meaning = meaning_of(job["state"], job.get("tags"))
    state, reason, detail, exit_code = meaning.state, meaning.reason, meaning.words, None
    error = job.get("error") or {}
    code, message = error.get("code", ""), error.get("message", "")
    if state == State.CANCELLED and error:
        found, _ = reason_of(code, message)
        # The service reports its own time limit and lost nodes as Canceled too.
        if found in (Reason.TIME_LIMIT, Reason.PREEMPTED, Reason.NODE_FAILURE):
            state, reason, detail = State.FAILED, found, None
    if state == State.FAILED and error:
        reason, exit_code = reason_of(code, message)
    if error and state in (State.FAILED, State.UNKNOWN):
        error_text = f"{message} ({code})" if code and message else message or code
        detail = f"{detail}; {error_text}" if detail else error_text
    has_started = state.is_final or state in (State.RUNNING, State.STARTING, State.PAUSED)
    return Observation(
        run_id=run_id,
        state=state,
        reason=reason,
        detail=detail,
        exit_code=exit_code,
        started_at=job.get("start") if has_started else None,
        ended_at=job.get("end") if state.is_final else None,
    )
