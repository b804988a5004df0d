"""The order to stop a run, which the person's machine writes into the store for the agents.

told/<id>/<run or row>/stop    {"at": seconds, "grace_s": seconds or null}

A service ends a node by SIGTERM whatever the cause is. With this order an agent knows that a person asked.
"""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional

from gofer.core import files
from gofer.core.outcome import Outcome
from gofer.core.states import Reason, State
from gofer.core.store_spec import StoreSpec
from gofer.node.rendezvous.peer_messages import PeerMessages
from gofer.objects.facts import ObjectsError

ORDER = "stop"
STOPPED = Outcome(State.CANCELLED, Reason.USER, "stopped on request")


def encode_order(grace_s: Optional[float]) -> bytes:
    """The order as the object holds it. `grace_s` is None where that of the job applies."""
    return files.encode({"at": time.time(), "grace_s": grace_s})


class StopOrder:
    """Reads the order of one run. `spec` opens the store. Calls block for some seconds at most."""

    def __init__(self, spec: StoreSpec, request_id: str, run_id: str, row: Optional[int]) -> None:
        self._arguments = (spec, request_id, run_id, row)

    def read(self) -> Optional[Mapping[str, Any]]:
        """The order; None when there is none, or when the store does not answer.

        A signal handler may call this: the connection is a new one.
        """
        try:
            return PeerMessages(*self._arguments).read(ORDER)
        except ObjectsError:
            return None


def grace_of(order: Mapping[str, Any]) -> Optional[float]:
    """How long the ranks get to end; None where the grace of the job applies."""
    grace_s = order.get("grace_s")
    return float(grace_s) if isinstance(grace_s, (int, float)) and grace_s >= 0 else None
