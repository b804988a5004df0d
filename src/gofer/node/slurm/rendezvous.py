"""The rendezvous of the nodes of a Slurm job: files in the handoff folder, which all nodes see.

told/<run or row>.<attempt>.ready-<node>    `PREPARED`
told/<run or row>.<attempt>.exit-<node>     `EXIT`
told/<run or row>.<attempt>.failed          a node has failed, so the signal that follows is not Slurm's
"""

from __future__ import annotations

import sys
import time
from typing import Mapping

from gofer.core.states import State
from gofer.node.rendezvous.base import EXIT, PREPARED, Membership, Rendezvous
from gofer.node.slurm.calls import SlurmError, call
from gofer.node.slurm.handoff import Handoff
from gofer.node.slurm.share import SlurmShare

_FILE_NAMES = {PREPARED: "ready"}
_FAILED = "failed"


class SlurmRendezvous(Rendezvous):
    """Slurm starts the nodes of a job together, names their hosts, and ends all when one is gone."""

    def __init__(self, handoff: Handoff, share: SlurmShare) -> None:
        super().__init__(share.node, share.nodes)
        self._handoff = handoff
        self._share = share

    def join(self) -> Membership:
        """The nodes that Slurm has started. Does not block."""
        self.membership = Membership(self._share.hosts, self._share.port)
        return self.membership

    def publish(self, message: str, value: Mapping[str, object]) -> None:
        """Write the message; an empty one as its time. The record of a failure also ends the other nodes:
        they get SIGTERM, and `watch` says why. Blocks while `scancel` runs.
        """
        self._publish(f"{_FILE_NAMES.get(message, message)}-{self.node}", value or {"at": time.time()})
        if message == EXIT and self.others and value["state"] == State.FAILED:
            self._publish(_FAILED, {"node": self.node})
            self._terminate_peers()

    def read(self, message: str, node: int) -> dict[str, object] | None:
        name = f"{_FILE_NAMES.get(message, message)}-{node}"
        return self._handoff.read(self._share.row, self._share.attempt, name)

    def watch(self) -> str | None:
        """Whether a node has failed. The agent calls this when it gets SIGTERM, in the signal handler."""
        failed = self._handoff.read(self._share.row, self._share.attempt, _FAILED)
        return None if failed is None else f"node {failed['node']} has failed"

    def _publish(self, name: str, value: Mapping[str, object]) -> None:
        self._handoff.publish(self._share.row, self._share.attempt, name, value)

    def _terminate_peers(self) -> None:
        try:
            call(["scancel", "--signal=TERM", f"{self._share.raw}.{self._share.step}"])
        except (SlurmError, OSError) as error:
            print(f"gofer: the other nodes could not be stopped: {error}", file=sys.stderr, flush=True)
