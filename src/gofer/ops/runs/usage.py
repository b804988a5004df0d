"""The memory and GPU use of a run's nodes: the last reading of each node, and its peaks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import GpuUse, RunFolder
    from gofer.tracking.ledger import RunRow


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
