"""Watch the other nodes of an attempt through the store, while the agent watches the ranks.

This is a process of its own, so that a store that does not answer cannot delay the agent.
"""

from __future__ import annotations

import os
import select
import sys

from gofer.node.helper_process import HelperProcess
from gofer.node.rendezvous.objects import ObjectRendezvous
from gofer.node.rendezvous.peer_messages import LOOK_S
from gofer.node.watch import STOP_FOR_PEER
from gofer.objects.facts import ObjectsError

_FAREWELL_S = 0.5


class PeerMonitor:
    """Sends this node's heartbeats. With `watches`, it also calls `watch`, and sends STOP_FOR_PEER to this
    process, once, when `watch` says that the ranks cannot continue.
    """

    def __init__(self, rendezvous: ObjectRendezvous, *, watches: bool) -> None:
        agent = os.getpid()
        self._child = HelperProcess(lambda reader: _monitor(reader, rendezvous, watches, agent))
        self.pid = self._child.pid

    def end(self) -> None:
        """End the process. Blocks for half a second at most."""
        self._child.finish(within_s=_FAREWELL_S)


def _monitor(reader: int, rendezvous: ObjectRendezvous, watches: bool, agent: int) -> bool:
    while not select.select([reader], [], [], LOOK_S)[0]:
        words = None
        try:
            if watches:
                words = rendezvous.watch()
            else:
                rendezvous.beat()
        except ObjectsError:
            continue  # the store may answer again; if it does not, the agent reports that
        if words is not None and os.getppid() == agent:
            print(f"gofer: {words}; the ranks of this node are stopped", file=sys.stderr, flush=True)
            os.kill(agent, STOP_FOR_PEER)
            watches = False
    return True
