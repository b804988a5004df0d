"""The memory and GPU use of a run's nodes: the last reading of each node, and its peaks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from gofer.ops.runs import run_folder

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import GpuUse
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


class NodeUse(NamedTuple):
    """The last reading of one node, taken at `at` and `age_s` seconds old. Peaks are over all readings."""

    node: int
    at: float
    age_s: float
    gpus: tuple[GpuUse, ...]
    rss_mib: float | None
    rss_peak_mib: float | None


def node_usage(store: Store, row: RunRow) -> list[NodeUse]:
    """The use of each node of the last attempt that has a heartbeat. Short runs have none."""
    numbers = [int(one["number"]) for one in row.attempts] or run_folder.attempt_numbers(store, row.id)
    if row.kind == "group" or not numbers:
        return []
    now = time.time()
    beats = run_folder.heartbeats(store, row.id, max(numbers))
    return [
        NodeUse(node, beat.at, max(now - beat.at, 0.0), beat.gpus, beat.rss_mib, beat.rss_peak_mib)
        for node, beat in sorted(beats.items())
    ]
