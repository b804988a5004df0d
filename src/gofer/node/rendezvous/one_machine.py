"""The rendezvous of nodes that are all on one machine.

A supervisor may be killed after it has sent their shares to only some agents of an attempt. No node starts
before all are there, so such an attempt can simply start again.
"""

from __future__ import annotations

import os
import time
from typing import Optional

from gofer.core import attempts, processes
from gofer.core.sleep import pause
from gofer.node.rendezvous.base import Membership
from gofer.node.rendezvous.folder import RunFolderMessages

# Shares that a supervisor sent before it was killed arrive within this time, or never.
_ORPHANS_PATIENCE_S = 2.0


class OneMachineRendezvous(RunFolderMessages):
    """The supervisor names the hosts and the port, and stops a node when another has failed."""

    def join(self) -> Optional[Membership]:
        """Wait until every other node has an agent. None when the supervisor is gone and an agent is missing,
        or when the run is stopped. Blocks without limit while the supervisor lives.
        """
        if self._wait_for_agents():
            self.membership = Membership(self._place.hosts, self._place.port)
        return self.membership

    def wait_until_prepared(self, keep_on: object) -> bool:
        """Nothing to wait for: a command on the first node finds what it needs on the same machine."""
        return True

    def _wait_for_agents(self) -> bool:
        missing = self.others
        orphaned_at: Optional[float] = None
        delay_s = 0.001
        while True:
            missing = [node for node in missing if not self._is_there(node)]
            if not missing:
                return True
            now = time.monotonic()
            if orphaned_at is None and self._watch.is_orphaned:
                orphaned_at = now
            is_late = orphaned_at is not None and now - orphaned_at > _ORPHANS_PATIENCE_S
            if self._watch.cause is not None or is_late:
                return False
            pause(delay_s)
            delay_s = min(delay_s * 1.5, 0.05)

    def _is_there(self, node: int) -> bool:
        """Whether the agent of a node is alive, or has already started or ended its share."""
        who = attempts.agent_of(self._store, self._place.run_id, self._place.attempt, node)
        if who is not None and who.pid != os.getpid() and processes.is_alive(who):
            return True
        return self._has_started(node)
