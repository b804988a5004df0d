"""The state of each run: the service's job states in gofer's terms, and how gofer asks for them."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.azureml.plan import TAG
from gofer.backends.azureml.service import Service, each
from gofer.backends.base import RunRef
from gofer.backends.polling import ClusterAnswer
from gofer.backends.run_notes import RunNote
from gofer.backends.scheduled import forgotten
from gofer.core.states import Reason, State
from gofer.errors import GoferError
from gofer.model.run import Observation
from gofer.text import parse_time
from gofer.transport.azure.arm import Json
from gofer.transport.azure.problems import innermost, one_line


class AzureStateMeaning(NamedTuple):
    """`words` explain the service's state where gofer's state says less."""

    state: State
    reason: Reason | None = None
    words: str | None = None


# Every JobStatus of the REST reference.
_MEANINGS = {
    "NotStarted": AzureStateMeaning(State.QUEUED),
    "Queued": AzureStateMeaning(State.QUEUED),
    "Scheduled": AzureStateMeaning(State.QUEUED),
    "Starting": AzureStateMeaning(State.STARTING),
    "Provisioning": AzureStateMeaning(State.STARTING, None, "its nodes are being created"),
    "Preparing": AzureStateMeaning(State.STARTING, None, "its environment is being prepared"),
    "Running": AzureStateMeaning(State.RUNNING),
    "Finalizing": AzureStateMeaning(State.RUNNING, None, "its outputs are being written"),
    "CancelRequested": AzureStateMeaning(State.RUNNING, None, "the service is stopping it"),
    "Paused": AzureStateMeaning(State.PAUSED, None, "paused by the service until nodes are free"),
    "Completed": AzureStateMeaning(State.SUCCEEDED),
    "Failed": AzureStateMeaning(State.FAILED, Reason.EXIT_CODE),
    "Canceled": AzureStateMeaning(State.CANCELLED, Reason.USER, "cancelled on the service"),
    "NotResponding": AzureStateMeaning(State.UNKNOWN, None, "the service has no contact with its nodes"),
    "Unknown": AzureStateMeaning(State.UNKNOWN, None, "the service does not know the state"),
}
KUBERNETES_STATUS = "amlk8s status"


def meaning_of(status: str, tags: Mapping[str, str] | None = None) -> AzureStateMeaning:
    """The meaning of a status. For Kubernetes jobs the tag is more accurate; an unknown word is `unknown`."""
    cluster_word = (tags or {}).get(KUBERNETES_STATUS, "").strip().lower()
    if cluster_word == "running" and status == "Queued":
        return _MEANINGS["Running"]
    if cluster_word in ("killing", "failed") and status == "Canceled":
        return AzureStateMeaning(
            State.FAILED, Reason.NODE_FAILURE, f"ended by the cluster, which reports `{cluster_word}`"
        )
    return _MEANINGS.get(status) or AzureStateMeaning(State.UNKNOWN, None, f"the service reports `{status}`")


def statuses_of(states: Collection[State]) -> tuple[str, ...]:
    """The statuses of the service that can mean one of these states; empty when a state has no certain
    status.

    One status can mean several states: Kubernetes reports the rest in a tag, and a time limit shows as
    Canceled.
    """
    also = {"Queued": State.RUNNING, "Canceled": State.FAILED}
    found = {
        state: [word for word, meaning in _MEANINGS.items() if meaning.state == state] for state in states
    }
    if State.UNKNOWN in states or not all(found.values()):
        return ()
    return tuple(
        word for word, meaning in _MEANINGS.items() if meaning.state in states or also.get(word) in states
    )


_EXIT = re.compile(
    r"(?:exit(?:ed)?(?:[ _-]?(?:status|code))?|non-?zero[^.]{0,40}?code|code|status)\D{0,12}?(-?\d+)", re.I
)

# Patterns for error codes and messages, the most specific first.
_REASONS: tuple[tuple[str, Reason], ...] = (
    (r"out[ -]?of[ -]?memory|OOMKilled|\bOOM\b", Reason.OUT_OF_MEMORY),
    (r"preempt|evict", Reason.PREEMPTED),
    (
        r"ImagePull|ImageBuild|EnvironmentBuild|environment.{0,30}(build|image)|docker.{0,20}pull",
        Reason.STAGING,
    ),
    (
        r"AuthorizationFailed|Authentication|credential|\bSAS\b|permission|Forbidden|Unauthorized",
        Reason.CREDENTIAL,
    ),
    (r"DataAccess|DatastoreNotFound|mount|StreamAccess|download.{0,20}fail", Reason.STAGING),
    (r"quota|ValidationError|InvalidRequest|BadArgument|InvalidArgument|NotAllowed", Reason.REJECTED),
    (r"time[ -]?(d[ -]?)?out|MaxRunDuration|exceeded.{0,30}(duration|time)", Reason.TIME_LIMIT),
    (r"NodeFail|node.{0,30}(fail|lost|unusable|unhealthy|down)|NotResponding|HostFail", Reason.NODE_FAILURE),
)


def reason_of(code: str, message: str) -> tuple[Reason, int | None]:
    """The reason of a failure and, where the message has it, the exit code of the command."""
    if code in ("JobExecutionError", "UserScriptException", "CommandFailed") or "exited with" in message:
        found = _EXIT.search(message)
        if found and not re.search(r"out[ -]?of[ -]?memory|OOMKilled", message, re.I):
            return Reason.EXIT_CODE, int(found[1])
    text = f"{code} {message}"
    for pattern, reason in _REASONS:
        if re.search(pattern, text, re.I):
            return reason, None
    found = _EXIT.search(message)
    return Reason.EXIT_CODE, int(found[1]) if found else None


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
    return parse_time(f"{found[1]}T{found[2]}{(found[3] or '')[:7]}Z")


class AzureStatus:
    """One answer of the service. `notes` are those of the requests that this machine sent, by request id."""

    def __init__(
        self, report: ClusterAnswer, notes: Mapping[str, RunNote | None], *, patience_s: float, now: float
    ) -> None:
        self._jobs = {str(job["name"]): job for job in report.jobs}
        self._answer = report
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
        if note is None or run.id not in self._answer.gone:
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
        since = self._answer.missing.get(run.id, self._now)
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
