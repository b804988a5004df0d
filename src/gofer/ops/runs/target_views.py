"""What a target shows about itself: its nodes, its web page, and all jobs of its service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gofer.backends.base import JobFilter, RunRef
from gofer.core.states import State
from gofer.errors import CheckFailed, UsageError
from gofer.text import did_you_mean, format_time

if TYPE_CHECKING:
    from gofer.backends.base import Backend, NodeFacts, ServiceJob
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


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


def nodes_of(session: Session, target: str | None) -> list[NodeFacts]:
    """The nodes of a target (default: the default target). Calls its cluster. CheckFailed when its kind has
    no nodes.
    """
    found = session.settings.target(target)
    nodes = session.backend(found.name).nodes()
    if nodes is None:
        raise CheckFailed(
            f"the target `{found.name}` cannot list nodes: its kind is `{found.kind}`",
            hint=f"`gofer target show {found.name}` shows what is known about it",
        )
    return list(nodes)


def portal_of(session: Session, name: str | None) -> str:
    """The URL of the web page of a target or a run; a target takes precedence. None means the default target.

    CheckFailed for a kind of target without web pages; UnknownName when there is no such target or run.
    """
    target = name or session.settings.default_target
    if target in session.settings.target_names:
        backend = session.backend(target)
        return _page(backend.portal(), backend, target)
    from gofer.ops.runs.find import find

    return portal_of_run(session, find(session, target, target=session.target))


def portal_of_run(session: Session, row: RunRow) -> str:
    """The URL of a run's web page; CheckFailed when there is none."""
    backend = session.backend_of(row)
    return _page(backend.portal(RunRef(row.id, row.group_id, row.row_index)), backend, row.target)


def _page(page: str | None, backend: Backend, target: str) -> str:
    if page is None:
        raise CheckFailed(
            f"`{target}` is a target of the kind `{backend.kind}`, which has no web pages",
            hint=f"`gofer target show {target}` shows what is known about it",
        )
    return page


def page_of(session: Session, row: RunRow) -> str | None:
    """Like `portal_of_run`, but None when there is no page."""
    return session.backend_of(row).portal(RunRef(row.id, row.group_id, row.row_index))


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
