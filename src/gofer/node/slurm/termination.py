"""Handle SIGTERM in a Slurm job. It can mean an abort by a person, the failure of another node, or that Slurm
ends the job.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from gofer.node.slurm.handoff import Handoff
from gofer.node.slurm.rendezvous import SlurmRendezvous
from gofer.node.watch import STOP_FOR_PEER, STOP_NOW, stop_self

# How much of Slurm's own grace is reserved for writing the exit record.
_RECORD_S = 1.5


class SlurmTermination:
    """Handles SIGTERM before the watch does, and passes on its meaning. Main thread, one per process.

    Slurm kills everything `kill_wait_s` after SIGTERM, so the grace of the ranks ends a little earlier.
    """

    def __init__(
        self, handoff: Handoff, row: int | None, rendezvous: SlurmRendezvous, kill_wait_s: float
    ) -> None:
        self._handoff = handoff
        self._row = row
        self._rendezvous = rendezvous
        self._kill_wait_s = kill_wait_s
        self._as_shutdown: Any = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), STOP_NOW))
        signal.signal(signal.SIGTERM, self._on_term)

    def check(self) -> None:
        """Act on a request to stop that was made before this process started."""
        if self._handoff.stop_order(self._row) is not None:
            os.kill(os.getpid(), signal.SIGTERM)

    def _on_term(self, number: int, frame: object) -> None:
        order = self._handoff.stop_order(self._row)
        if order is not None:
            stop_self(order["grace_s"])
        elif self._rendezvous.watch() is not None:
            os.kill(os.getpid(), STOP_FOR_PEER)
        else:
            signal.setitimer(signal.ITIMER_REAL, max(0.2, self._kill_wait_s - _RECORD_S))
            self._as_shutdown(number, frame)
