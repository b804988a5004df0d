"""Watch the other nodes of an attempt through the store, while the agent watches the ranks.

This is a process of its own, so that a store that does not answer cannot delay the agent.
"""

from __future__ import annotations

import os
import select
import sys
from typing import Dict, List, Optional

from gofer.core.states import State
from gofer.node.azure.peer_messages import PeerMessages
from gofer.node.azure.rendezvous import LOOK_S, AttemptPlan, Pulse
from gofer.node.helper_process import HelperProcess
from gofer.node.watch import STOP_FOR_PEER
from gofer.objects.facts import ObjectsError

_FAREWELL_S = 0.5


class PeerMonitor:
    """Sends this node's heartbeats. Sends STOP_FOR_PEER to this process, once, when another node of the
    attempt fails or is gone. Without a plan it only sends heartbeats.
    """

    def __init__(self, messages: PeerMessages, plan: Optional[AttemptPlan], node: int, nodes: int) -> None:
        agent = os.getpid()
        self._child = HelperProcess(lambda reader: _watch(reader, messages, plan, (node, nodes, agent)))
        self.pid = self._child.pid

    def end(self) -> None:
        self._child.finish(within_s=_FAREWELL_S)


def _watch(
    reader: int, messages: PeerMessages, plan: Optional[AttemptPlan], who: tuple[int, int, int]
) -> bool:
    node, nodes, agent = who
    others = [one for one in range(nodes) if one != node]
    pulse = Pulse(messages, node)
    is_told = plan is None
    while not select.select([reader], [], [], LOOK_S)[0]:
        try:
            pulse.beat()
            words = (
                None if is_told or plan is None else _failed_peer(messages.read_all(), plan, others, pulse)
            )
        except ObjectsError:
            continue  # the store may answer again; if it does not, the agent reports that
        if words is not None and os.getppid() == agent:
            print(f"gofer: {words}; the ranks of this node are stopped", file=sys.stderr, flush=True)
            os.kill(agent, STOP_FOR_PEER)
            is_told = True
    return True


def _failed_peer(
    messages: Dict[str, Dict[str, object]], plan: AttemptPlan, others: List[int], pulse: Pulse
) -> Optional[str]:
    """Why the ranks of this node cannot continue, as a phrase; None while they can."""
    at_work = []
    for one in others:
        record = messages.get(f"exit.{plan.attempt}.{one}")
        if record is None:
            at_work.append(one)
        elif record["state"] != State.SUCCEEDED:
            return f"node {one} is {record['state']}: {record['detail']}"
    missed = pulse.missed(messages, at_work)
    return plan.changed(messages) or (f"node {missed[0]} is silent" if missed else None)
