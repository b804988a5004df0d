"""The nodes of an attempt on one machine wait for each other before any of them starts its command.

A supervisor may be killed after it has sent their shares to only some agents of an attempt. Since no node
starts before all are there, such an attempt can simply start again.
"""

from __future__ import annotations

import os
import time

from gofer.core import attempts, processes, run_layout
from gofer.core.launch import NodePlace
from gofer.core.sleep import pause
from gofer.node.watch import Watch

# Shares that a supervisor sent before it was killed arrive within this time, or never.
_ORPHANS_PATIENCE_S = 2.0


def wait_for_peers(store: str, place: NodePlace, watch: Watch) -> bool:
    """Wait until every other node has an agent. False when the supervisor is gone and an agent is missing, or
    when the run is stopped. Blocks.
    """
    missing = [node for node in range(place.nodes) if node != place.node]
    orphaned_at: float | None = None
    delay_s = 0.001
    while True:
        missing = [node for node in missing if not _is_there(store, place, node)]
        if not missing:
            return True
        now = time.monotonic()
        if orphaned_at is None and watch.is_orphaned:
            orphaned_at = now
        if watch.cause is not None or (orphaned_at is not None and now - orphaned_at > _ORPHANS_PATIENCE_S):
            return False
        pause(delay_s)
        delay_s = min(delay_s * 1.5, 0.05)


def _is_there(store: str, place: NodePlace, node: int) -> bool:
    """Whether the agent of a node is alive, or has already started or ended its share."""
    who = attempts.agent_of(store, place.run_id, place.attempt, node)
    if who is not None and who.pid != os.getpid() and processes.is_alive(who):
        return True
    try:
        names = os.listdir(os.path.join(store, run_layout.node_key(place.run_id, place.attempt, node)))
    except FileNotFoundError:
        return False
    return any(name == run_layout.EXIT or name.startswith("rank-") for name in names)
