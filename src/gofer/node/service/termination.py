"""Handle SIGTERM on a node of a service: the service ends this node, and does not say why.

The cause may be a cancel, a pause or a preemption. Where the order of a person to stop is in the store, the
agent acts on it. Elsewhere readers of the run's folder ask the service which it was.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, Optional

from gofer.node.service.stop_order import StopOrder, grace_of
from gofer.node.watch import STOP_NOW, Watch, stop_self


class Termination:
    """Handles SIGTERM before the watch does. Main thread, one per process.

    Ranks that have not ended `grace_s` after SIGTERM are killed. `order` reads the order to stop, if the
    service has such orders. `on_termination` is called in the signal handler, once: this process may be
    killed soon.
    """

    def __init__(self, grace_s: float, watch: Watch, order: Optional[StopOrder] = None) -> None:
        self.is_terminated = False
        self.on_termination: Callable[[], None] = lambda: None
        self._grace_s = grace_s
        self._order = order
        self._is_stopped = False
        self._as_shutdown: Any = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), STOP_NOW))
        signal.signal(signal.SIGTERM, self._on_term)
        # SIGTERM came before this handler was installed
        self.is_terminated = self.is_terminated or watch.cause is not None

    def cancel_timer(self) -> None:
        """No rank is left: cancel the timer, so that the rest can be sent without hurry."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _on_term(self, number: int, frame: object) -> None:
        order = None if self._order is None or self._is_stopped else self._order.read()
        if order is not None:
            self._is_stopped = True
            stop_self(grace_of(order))
        if self._is_stopped:
            return
        if not self.is_terminated:
            self.is_terminated = True
            signal.setitimer(signal.ITIMER_REAL, max(0.05, self._grace_s))
            self.on_termination()
        self._as_shutdown(number, frame)
