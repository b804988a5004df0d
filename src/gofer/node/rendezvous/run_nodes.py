"""Whether the nodes of a run on several machines have begun and ended, for the supervisor of one machine."""

from __future__ import annotations

import os
from typing import Any

from gofer.core import files, run_layout
from gofer.core.node_request import NodeRequest

# A node whose folder has not changed for this long counts as gone; it writes a heartbeat every ten seconds.
_LOST_S = 90.0


def own_nodes(request: NodeRequest) -> list[int]:
    """The nodes of a run that are on this machine: all, unless it spans several."""
    nodes: list[int] | None = request.span
    return list(range(request.layout.nodes)) if nodes is None else nodes


def was_begun(store: str, run_id: str, attempt: int, request: NodeRequest) -> bool:
    """Whether a node on this machine has an exit record. A node that withdrew has none."""
    paths = (os.path.join(store, run_layout.node_key(run_id, attempt, node)) for node in own_nodes(request))
    return any(_exit_of(path) is not None for path in paths)


def has_ended(store: str, run_id: str, attempt: int, request: NodeRequest) -> bool:
    """Whether every node, on any machine, has an exit record or counts as gone."""
    for node in range(request.layout.nodes):
        path = os.path.join(store, run_layout.node_key(run_id, attempt, node))
        if _exit_of(path) is None and _age_s(path) < _LOST_S:
            return False
    return True


def _exit_of(path: str) -> dict[str, Any] | None:
    return files.read_json(os.path.join(path, run_layout.EXIT))


def _age_s(path: str) -> float:
    """Seconds since anything in the folder was written, by the clock of the file system, which may differ
    from ours.
    """
    try:
        newest = max(entry.stat().st_mtime for entry in os.scandir(path))
    except (FileNotFoundError, ValueError):
        return 0.0 if os.path.isdir(path) else float("inf")
    probe = os.path.join(path, f"now.{os.getpid()}.tmp")
    with open(probe, "wb"):
        pass
    now = os.stat(probe).st_mtime
    files.remove(probe)
    return now - newest
