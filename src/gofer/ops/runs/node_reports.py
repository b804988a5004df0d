"""What the nodes of a run report while it runs: the progress of mapped folders and packages, and the use of
memory and GPUs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.core import run_layout as names
from gofer.core.states import State
from gofer.ops.runs.run_folder import read_lines
from gofer.text import format_size

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import GpuUse, RunFolder
    from gofer.tracking.ledger import RunRow


_TAIL_BYTES = 4096
_WAITING = "waiting"
_MOVING = ("copying", "uploading")
_PACKAGES = "packages"
_SAID = ("folder", _PACKAGES)


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
