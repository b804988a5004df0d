"""Handle SIGTERM on a node of a service: the service ends this node, and does not say why.

The cause may be a cancel, a pause or a preemption. Readers of the run's folder ask the service which it was.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Callable

from gofer.node.watch import STOP_NOW, Watch


class Termination:
    """Handles SIGTERM before the watch does. Main thread, one per process.

    Ranks that have not ended `grace_s` after SIGTERM are killed.
    `on_termination` is called in the signal handler, once: this process may be killed soon.
    """

    def __init__(self, grace_s: float, watch: Watch) -> None:
        self.is_terminated = False
        self.on_termination: Callable[[], None] = lambda: None
        self._grace_s = grace_s
        self._as_shutdown: Any = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), STOP_NOW))
        signal.signal(signal.SIGTERM, self._on_term)
        # SIGTERM came before this handler was installed
        self.is_terminated = self.is_terminated or watch.cause is not None

    def cancel_timer(self) -> None:
        """No rank is left: cancel the timer, so that the rest can be sent without hurry."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _on_term(self, number: int, frame: object) -> None:
        if not self.is_terminated:
            self.is_terminated = True
            signal.setitimer(signal.ITIMER_REAL, max(0.05, self._grace_s))
            self.on_termination()
        self._as_shutdown(number, frame)
