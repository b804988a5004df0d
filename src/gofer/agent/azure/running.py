"""One node's share of one attempt on Azure ML: the agent's usual work, and what this service asks besides."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional

from gofer.agent import files, folder, mpi, verdict
from gofer.agent.azure.orders import Orders
from gofer.agent.azure.standing_in import ServiceMpirun
from gofer.agent.node import Failed, Node
from gofer.agent.states import Reason, State
from gofer.agent.verdict import Verdict
from gofer.agent.watch import Outcome

TOLD = Verdict(State.LOST, Reason.PREEMPTED, "the service told it to end")
_FOR_PEER = Verdict(State.CANCELLED, Reason.USER, "stopped because another node failed")


class AzureNode(Node):
    """A node whose service may tell it to end, and does not say whether it will be started again."""

    orders: Orders
    service_mpirun: Optional[ServiceMpirun] = None
    _is_ending = False

    @property
    def exit_path(self) -> str:
        return os.path.join(self.folder, folder.EXIT)

    def record(self) -> Dict[str, Any]:
        """How it ended; made up where not even that could be written."""
        known = files.read_json(self.exit_path)
        return known or self._made_up(Verdict(State.FAILED, Reason.STAGING, "it left no record of its end"))

    def note_told(self) -> None:
        """Write down beforehand what this share will come to if it is killed now. In a handler of signals."""
        if self._is_ending:
            return
        try:
            os.makedirs(self.folder, exist_ok=True)
            files.write_whole(self.exit_path, files.encode(self._made_up(TOLD)))
        except OSError:
            pass  # the disk is full, or gone

    def _made_up(self, found: Verdict) -> Dict[str, Any]:
        running = self._running
        return verdict.exit_record(self.place.node, found, outcome=None, tail=self._tail, running=running)

    def _write_end(self, found: Verdict, outcome: Optional[Outcome]) -> None:
        self._is_ending = True
        super()._write_end(found, outcome)

    def _check_stopped(self) -> None:
        if self.orders.is_told:
            raise Failed(TOLD)
        if self._watch.cause == "peer":
            raise Failed(_FOR_PEER)
        super()._check_stopped()

    def _judge(self, outcome: Outcome) -> Verdict:
        self.orders.be_patient()
        return TOLD if outcome.cause == "shutdown" else super()._judge(outcome)

    def _ask_mpirun(self) -> Dict[int, Dict[str, str]]:
        if self.service_mpirun is None:
            return super()._ask_mpirun()
        began = time.monotonic()
        try:
            found = self.service_mpirun.gather(self._keep_on)
        except mpi.MpiStopped:
            self._check_stopped()
            raise self._late("while the service's mpirun was waited for") from None
        self._diary.note("stand-ins", count=len(found), waited_s=round(time.monotonic() - began, 3))
        return found
