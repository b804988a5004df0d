"""What a target shows about itself: facts as text, its nodes, its web page, and all jobs of its service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gofer.backends.base import JobFilter, RunRef
from gofer.core.states import State
from gofer.errors import CheckFailed, GoferError, UsageError
from gofer.ops.messages import Warning
from gofer.ops.runs.find import find
from gofer.text import did_you_mean, format_size, format_time

if TYPE_CHECKING:
    from gofer.backends.base import Backend, NodeFacts, ServiceImage, ServiceJob
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

T = TypeVar("T")

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
_SIZE = "_mib"


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


def nodes_of_group(session: Session, targets: Sequence[str]) -> list[tuple[str, NodeFacts]]:
    """The nodes of each of the targets, with the target's name. Calls their clusters. A warning for each that
    cannot list nodes; the last error where none can.
    """
    found: list[tuple[str, NodeFacts]] = []
    for name, nodes in _each_of_group(session, targets, nodes_of):
        found += [(name, node) for node in nodes]
    return found


def jobs_of_group(session: Session, targets: Sequence[str], wanted: JobFilter) -> list[ServiceJob]:
    """The jobs of the targets' services, newest first, each once. Errors as `nodes_of_group`."""
    found: dict[tuple[str, str], ServiceJob] = {}

    def jobs(session: Session, name: str) -> Sequence[ServiceJob]:
        return service_jobs(session, name, wanted)[1]

    for name, listed in _each_of_group(session, targets, jobs):
        service = session.backend(name).job_service()
        found |= {(service.service_name if service else name, job.name): job for job in listed}
    return sorted(found.values(), key=lambda job: -(job.created_at or 0.0))[: wanted.most]


def _each_of_group(
    session: Session, targets: Sequence[str], ask: Callable[[Session, str], T]
) -> Iterator[tuple[str, T]]:
    """The answer of each target that has one."""
    answered = False
    for at, name in enumerate(targets, 1):
        try:
            answer = ask(session, name)
        except GoferError as error:
            if at == len(targets) and not answered:
                raise
            session.emit(Warning(error.message))
            continue
        answered = True
        yield name, answer


def images_of(session: Session, target: str) -> list[ServiceImage]:
    """The images that the service of a target offers. Calls the service. CheckFailed when it lists none."""
    images = session.backend(target).images()
    if images is None:
        raise CheckFailed(
            f"the target `{target}` has no images: its kind is `{session.settings.target(target).kind}`",
            hint="`gofer image list` lists the images under `dockers:`",
        )
    return list(images)


def portal_of(session: Session, name: str | None) -> str:
    """The URL of the web page of a target or a run; a target takes precedence. None means the default target.

    CheckFailed for a kind of target without web pages; UnknownName when there is no such target or run.
    """
    target = name or session.settings.default_target
    if target in session.settings.target_names:
        backend = session.backend(target)
        return _page(backend.portal(), backend, target)
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


def fact(name: str, value: object) -> tuple[str, str]:
    """A label and its text, empty when there is nothing to say: `memory_mib`, 24576 becomes `memory`, `24.0
    GiB`.
    """
    if name.endswith(_SIZE) and isinstance(value, int):
        return name.removesuffix(_SIZE).replace("_", " "), format_size(value << 20)
    return name.replace("_", " "), words(value)


def words(value: object) -> str:
    """A value as text: `3 of 8 free`, `2 running, 1 queued`, or a table with one line per row."""
    if isinstance(value, list | tuple):
        return _aligned(value) if _is_table(value) else "\n".join(words(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    told = {str(key): one for key, one in value.items() if one is not None}
    if told.keys() == {"free", "total"}:
        return f"{told['free']} of {told['total']} free" if told["total"] else "none"
    if told and all(isinstance(one, Mapping) for one in told.values()):
        return "\n".join(f"{key}: {words(one)}" for key, one in told.items())
    if "utilisation" in told and "index" in told:
        return _gpu(told)
    if told and all(type(one) is int for one in told.values()):
        return ", ".join(f"{one} {key.replace('_', ' ')}" for key, one in told.items())
    return " ".join(f"{key}={one}" for key, one in told.items())


def _is_table(rows: Sequence[object]) -> bool:
    """Whether the rows are mappings with the same keys, and text or numbers as values."""
    maps = [row for row in rows if isinstance(row, Mapping)]
    same = len(maps) == len(rows) > 1 and len({tuple(row) for row in maps}) == 1
    plain = all(isinstance(one, str | int | None) for row in maps for one in row.values())
    return same and plain and "utilisation" not in maps[0]


def _aligned(rows: Sequence[Any]) -> str:
    """A table with a heading. Columns are as wide as their widest cell, and numbers are right-aligned."""
    names = list(rows[0])
    cells = [[name.replace("_", " ").upper() for name in names]]
    cells += [["" if row[name] is None else str(row[name]) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    right = [all(isinstance(row[name], int) for row in rows) for name in names]
    lines = (
        "  ".join(
            cell.rjust(wide) if is_right else cell.ljust(wide)
            for cell, wide, is_right in zip(line, widths, right, strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _gpu(told: Mapping[str, Any]) -> str:
    memory = [told[key] for key in ("memory_used_mib", "memory_total_mib") if key in told]
    used = ", " + " of ".join(format_size(int(one) << 20) for one in memory) if memory else ""
    return f"GPU {told['index']} {told.get('name', '')}".rstrip() + f": {told['utilisation']} % busy{used}"
