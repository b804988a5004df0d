"""One node's share of one attempt on a service: the agent's usual work, with what a service needs in
addition.
"""

from __future__ import annotations

import os
import time
from typing import Dict, Optional

from gofer.core import attempts, files, run_layout
from gofer.core.outcome import ExitFields, Outcome
from gofer.core.states import Reason, State
from gofer.node import exit_record, mpi
from gofer.node.exit_record import AttemptFailed
from gofer.node.runner import Node
from gofer.node.service.service_mpi import ServiceMpirun
from gofer.node.service.termination import Termination
from gofer.node.watch import WatchResult

TERMINATED = Outcome(State.LOST, Reason.PREEMPTED, "the service ended this node")
_FOR_PEER = Outcome(State.CANCELLED, Reason.USER, "stopped because another node failed")


class ServiceNode(Node):
    """A node that the service may end at any time; it may or may not start the node again."""

    is_alone = True
    termination: Termination
    service_mpirun: Optional[ServiceMpirun] = None
    _is_ending = False

    @property
    def exit_path(self) -> str:
        return os.path.join(self.folder, run_layout.EXIT)

    def record(self) -> ExitFields:
        """The exit record of this share. When none could be written, a record of that failure."""
        known = attempts.read_exit(self.folder)
        return known or self._made_up(
            Outcome(State.FAILED, Reason.STAGING, "the node left no record of its end")
        )

    def note_termination(self) -> None:
        """Write the exit record that is right if this process is killed now. Called in a signal handler."""
        if self._is_ending:
            return
        try:
            os.makedirs(self.folder, exist_ok=True)
            files.write_whole(self.exit_path, files.encode(self._made_up(TERMINATED)))
        except OSError:
            pass  # the disk is full or gone

    def _made_up(self, found: Outcome) -> ExitFields:
        running = self._running
        return exit_record.encode(self.place.node, found, watched=None, tail=self._tail, running=running)

    def _write_end(self, found: Outcome, watched: Optional[WatchResult]) -> None:
        self._is_ending = True
        super()._write_end(found, watched)

    def _check_stopped(self) -> None:
        if self.termination.is_terminated:
            raise AttemptFailed(TERMINATED)
        if self._watch.cause == "peer":
            raise AttemptFailed(_FOR_PEER)
        super()._check_stopped()

    def _judge(self, watched: WatchResult) -> Outcome:
        self.termination.cancel_timer()
        return TERMINATED if watched.cause == "shutdown" else super()._judge(watched)

    def _ask_mpirun(self) -> Dict[int, Dict[str, str]]:
        if self.service_mpirun is None:
            return super()._ask_mpirun()
        began = time.monotonic()
        try:
            found = self.service_mpirun.gather(self._keep_on)
        except mpi.MpiStopped:
            self._check_stopped()
            raise self._late("while it waited for the service's mpirun") from None
        self._event_log.note("stand-ins", count=len(found), waited_s=round(time.monotonic() - began, 3))
        return found
