"""The heartbeats of nodes that meet in an object store: messages that change while their node is alive."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from gofer.node.rendezvous.peer_messages import LOOK_S, Messages, PeerMessages

_BEAT_S = 15.0
_LOST_S = 120.0


class Heartbeats:
    """Sends the heartbeats of this node, and follows those of the other nodes."""

    def __init__(self, messages: PeerMessages, node: int) -> None:
        self._messages = messages
        self._node = node
        self._beats = 0
        self._beat_at = 0.0
        self._looked_at: Optional[float] = None
        self._silent_s: Dict[int, float] = {}
        self._last: Dict[int, Any] = {}

    def beat(self) -> None:
        """Send a heartbeat if the last is old enough. The process id and a count make each heartbeat
        different.
        """
        if time.monotonic() >= self._beat_at:
            self._beats += 1
            facts = {"by": os.getpid(), "beat": self._beats, "at": time.time()}
            self._messages.publish(f"beat.{self._node}", facts)
            self._beat_at = time.monotonic() + _BEAT_S

    def missed(self, messages: Messages, nodes: List[int]) -> List[int]:
        """The nodes that have sent no heartbeat for _LOST_S. Only time between successful reads counts."""
        now = time.monotonic()
        passed_s = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * LOOK_S)
        self._looked_at = now
        for node in nodes:
            beat = messages.get(f"beat.{node}")
            is_new = beat != self._last.get(node)
            self._last[node] = beat
            self._silent_s[node] = 0.0 if is_new else self._silent_s.get(node, 0.0) + passed_s
        return [node for node in nodes if self._silent_s[node] > _LOST_S]
