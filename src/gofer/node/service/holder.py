"""Which process is a node of a run, where a service may start a node again while the first still runs.

told/<id>/<run or row>/holder.<node>    {"word": random, of the process that started last}

A process that finds another word no longer writes what attempts share: the outputs, and the end of the run.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, Optional, Tuple

from gofer.core.store_spec import StoreSpec
from gofer.node.rendezvous.peer_messages import PeerMessages
from gofer.objects.facts import ObjectsError

# An answer of the store counts for this long, so that a node that writes all the time asks rarely.
_GOOD_S = 5.0


class NodeHolder:
    """One process as a node of a run, and the children that it forks. Calls block for some seconds at most.
    Not for several threads. `place` is what PeerMessages takes.
    """

    def __init__(self, place: Tuple[StoreSpec, str, str, Optional[int]], node: int) -> None:
        self._place = place
        self._open: Tuple[int, Optional[PeerMessages]] = (0, None)
        self._name = f"holder.{node}"
        self._word = os.urandom(8).hex()
        self._asked_at = 0.0
        self._holds = True

    def take(self) -> None:
        """Become the node. ObjectsError when the store does not answer."""
        self._messages().publish(self._name, {"word": self._word})

    def holds(self, *, now: bool = False) -> bool:
        """Whether this process still is the node. While the store does not answer, the last answer counts,
        because nothing can be written then either. `now`
        skips the pause between two reads.
        """
        if self._holds and (now or time.monotonic() - self._asked_at > _GOOD_S):
            self._ask()
        return self._holds

    def _messages(self) -> PeerMessages:
        """The messages of the run, by a connection of this process: a forked child must not use another's."""
        pid, known = self._open
        if known is None or pid != os.getpid():
            known = PeerMessages(*self._place)
            self._open = (os.getpid(), known)
        return known

    def _ask(self) -> None:
        try:
            found: Optional[Dict[str, Any]] = self._messages().read(self._name)
        except ObjectsError:
            return
        self._asked_at = time.monotonic()
        # The messages of a run that has ended are removed.
        if found is not None and found.get("word") != self._word:
            self._holds = False
            words = "another pod has taken over this node of the run; this one sends no more outputs"
            print(f"gofer: {words}", file=sys.stderr, flush=True)
