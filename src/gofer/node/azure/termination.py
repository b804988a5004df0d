"""What SIGTERM means in a job of Azure ML: the service wants it to end, and does not say why or how soon.

It may be a cancel, a pause or a preemption; whoever reads the run's folder asks the service which it was.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Callable

from gofer.node.watch import STOP_NOW, Watch

# The service's own patience is not told; this is what ranks get of it at most.
_MOST_GRACE_S = 20.0


class AzureTermination:
    """Hears SIGTERM before the watch does. Main thread, once a process.

    `on_told` is called in the handler, the first time: little may be left of this process's life.
    """

    def __init__(self, grace_s: float, watch: Watch) -> None:
        self.is_told = False
        self.on_told: Callable[[], None] = lambda: None
        self._grace_s = min(grace_s, _MOST_GRACE_S)
        self._as_shutdown: Any = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), STOP_NOW))
        signal.signal(signal.SIGTERM, self._on_term)
        self.is_told = self.is_told or watch.cause is not None  # told before this could hear it

    def be_patient(self) -> None:
        """No rank is left: what is still to be sent need not hurry."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _on_term(self, number: int, frame: object) -> None:
        if not self.is_told:
            self.is_told = True
            signal.setitimer(signal.ITIMER_REAL, max(0.05, self._grace_s))
            self.on_told()
        self._as_shutdown(number, frame)
