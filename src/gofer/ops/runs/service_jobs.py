"""List all jobs of a target's service, not only those of gofer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gofer.backends.base import JobFilter
from gofer.core.states import State
from gofer.errors import CheckFailed, UsageError
from gofer.text import did_you_mean, format_time

if TYPE_CHECKING:
    from gofer.backends.base import ServiceJob
    from gofer.ops.session import Session

# Names of states in the services and their tools.
_STATES = {
    "completed": State.SUCCEEDED,
    "canceled": State.CANCELLED,
    "error": State.FAILED,
    "notstarted": State.QUEUED,
    "scheduled": State.QUEUED,
    "preparing": State.STARTING,
    "provisioning": State.STARTING,
    "finalizing": State.RUNNING,
}


def service_jobs(session: Session, target: str | None, wanted: JobFilter) -> tuple[str, Sequence[ServiceJob]]:
    """The target's name and its service's jobs, newest first; CheckFailed when it has no service."""
    name = target or session.settings.default_target
    backend = session.backend(name)
    service = backend.job_service()
    if service is None:
        raise CheckFailed(
            f"targets of the kind `{backend.kind}` have only jobs of gofer, and `{name}` is such a target",
            hint="`gofer list runs` lists these; `-c NAME` chooses another target",
        )
    return name, service.jobs(wanted)


def states_of(words: Sequence[str]) -> frozenset[State]:
    """The states with these names, of gofer or of a service; UsageError for an unknown name."""
    found = set()
    for word in (one.strip() for text in words for one in text.split(",")):
        plain = word.lower()
        state = _STATES.get(plain) or (State(plain) if plain in list(State) else None)
        if state is None:
            hint = did_you_mean(plain, [*State, *_STATES]) or f"the states are {', '.join(State)}"
            raise UsageError(f"`{word}` is not the state of a job", hint=hint)
        found.add(state)
    return frozenset(found)


def job_json(job: ServiceJob) -> dict[str, Any]:
    """The job as plain JSON values; times in RFC 3339."""
    times = ("created_at", "started_at", "ended_at")
    return {
        **job._asdict(),
        "state": job.state.value,
        "tags": dict(job.tags),
        **{name: format_time(getattr(job, name)) for name in times},
    }
