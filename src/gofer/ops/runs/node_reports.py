"""What the nodes of a run report: where they are, the progress of mapped folders and packages, the use of
memory and GPUs, how they ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.core import run_layout as names
from gofer.core.states import State
from gofer.errors import CheckFailed
from gofer.model.bounds import Count, Seconds
from gofer.ops.runs.run_folder import read_lines
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.text import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.runs.run_folder import GpuUse, RunFolder
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


_TAIL_BYTES = 4096
_BEGINNING_BYTES = 256 << 10
_WAITING = "waiting"
_MOVING = ("copying", "uploading")
_PACKAGES = "packages"
_SAID = ("folder", _PACKAGES)
# The names of more machines are not read.
_MOST_HOSTS = 16


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    event: str
    name: str = ""
    step: str = ""
    file: str = ""
    files: int | None = None
    of_files: int | None = None
    bytes: int = 0
    of_bytes: int = 0


def progress(folder: RunFolder, row: RunRow) -> str | None:
    """What the nodes are copying or sending now; None when nothing. Reads the end of each node's events."""
    if row.kind == "group" or row.state not in (State.STARTING, State.RUNNING):
        return None
    if not folder.attempts:
        return None
    attempt = folder.attempts[-1]
    last = (_last(folder, attempt, node) for node in folder.nodes(attempt))
    words = dict.fromkeys(_words(step) for step in last if step is not None and step.event in _SAID)
    return "; ".join(one for one in words if one) or None


def _last(folder: RunFolder, attempt: int, node: int) -> _Step | None:
    data = folder.read_end(attempt, node, names.EVENTS, _TAIL_BYTES)
    return next(reversed([*read_lines(data, _Step)]), None)


def _words(step: _Step) -> str:
    if step.event == _PACKAGES:
        return _package_words(step)
    if step.step == _WAITING:
        return f"waiting for another run that copies `{step.name}`"
    if step.step not in _MOVING:
        return ""
    if step.of_files is None:
        return f"{step.step} `{step.name}`"
    sizes = f"{format_size(step.bytes)} of {format_size(step.of_bytes)}"
    return f"{step.step} `{step.name}`: {step.files or 0:,} of {step.of_files:,} files, {sizes}"


def _package_words(step: _Step) -> str:
    if step.step == _WAITING:
        return f"waiting for another run that builds the packages of `{step.file}`"
    is_ready = step.step in ("built", "fetched")
    return "" if is_ready else f"installing the packages of `{step.file}`"


class NodeUse(NamedTuple):
    """The last reading of one node, taken at `at` and `age_s` seconds old. Peaks are over all readings."""

    node: int
    at: float
    age_s: float
    gpus: tuple[GpuUse, ...]
    rss_mib: float | None
    rss_peak_mib: float | None


def node_usage(folder: RunFolder, row: RunRow) -> list[NodeUse]:
    """The use of each node of the last attempt that has a heartbeat. Short runs have none."""
    attempt = 0 if row.kind == "group" else folder.last_attempt(row)
    if not attempt:
        return []
    now = time.time()
    beats = folder.heartbeats(attempt)
    return [
        NodeUse(node, beat.at, max(now - beat.at, 0.0), beat.gpus, beat.rss_mib, beat.rss_peak_mib)
        for node, beat in sorted(beats.items())
    ]


class _NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a node; the facts that it does not have are None."""

    event: str
    at: Seconds
    host: str | None = None
    ranks: tuple[Count, ...] | None = None
    gpus: tuple[Count, ...] | None = None


class RunNode(NamedTuple):
    """One node of the last attempt of a run. `gpu_numbers` are those of its GPUs on the host, empty where
    gofer does not choose them. `host` and `ranks` are empty for a node that has not begun.
    """

    node: int
    host: str
    state: State
    ranks: tuple[int, ...]
    gpus: int
    gpu_numbers: tuple[int, ...]
    started_at: float | None
    ended_at: float | None
    detail: str


def nodes_of_run(session: Session, row: RunRow) -> list[RunNode]:
    """All nodes of the run, also those that have not begun. Reads the folder of the run. CheckFailed for a
    group, whose rows have nodes of their own.
    """
    if row.kind == "group":
        raise CheckFailed(
            f"{row.short_id} is a group of runs, each with nodes of its own",
            hint=f"name one of them: `gofer list nodes {row.short_id}-0`",
        )
    folder = None if is_adopted(row) else session.run_folder(row)
    attempt = folder.last_attempt(row) if folder else 0
    ends = folder.exit_records(attempt) if folder and attempt else {}
    nodes = []
    for number in sorted({*range(row.nodes), *ends}):
        begun = number in ends
        events = _events(folder, attempt, number) if folder and begun else []
        agent = _agent(events)
        started = next((event.at for event in events if event.event == "started"), None)
        end = ends.get(number)
        nodes.append(
            RunNode(
                number,
                (agent.host if agent else None) or "",
                end.state if end else _state(row, begun=begun, started=started is not None),
                (agent.ranks if agent else None) or (),
                row.gpus // max(row.nodes, 1),
                (agent.gpus if agent else None) or (),
                (end.started_at if end else None) or started,
                end.ended_at if end else None,
                (end.detail if end else None) or "",
            )
        )
    return nodes


def node_hosts(folder: RunFolder, row: RunRow) -> tuple[str, ...]:
    """The machines of the last attempt, by node. Empty for a group and for a run of very many nodes; nodes
    that have not begun are left out.
    """
    attempt = 0 if row.kind == "group" else folder.last_attempt(row)
    if not attempt or row.nodes > _MOST_HOSTS:
        return ()
    agents = (_agent(_events(folder, attempt, node)) for node in folder.nodes(attempt))
    return tuple(agent.host for agent in agents if agent and agent.host)


def _agent(events: Sequence[_NodeEvent]) -> _NodeEvent | None:
    """The event of the agent that last took the node's part."""
    return next((event for event in reversed(events) if event.host is not None), None)


def _events(folder: RunFolder, attempt: int, node: int) -> list[_NodeEvent]:
    """The first events of a node, which say where it is and when its ranks started."""
    data = folder.read_beginning(attempt, node, names.EVENTS, _BEGINNING_BYTES)
    return [*read_lines(data, _NodeEvent)]


def _state(row: RunRow, *, begun: bool, started: bool) -> State:
    """The state of a node without an exit record."""
    if row.is_final:
        return State(row.state)
    if not begun:
        return State.QUEUED if row.state in (State.STARTING, State.RUNNING) else State(row.state)
    return State.RUNNING if started else State.STARTING
