"""The threads of a transfer. Their number is found by trying.

More requests at a time help while the network is slow to answer, and cost CPU time where it is fast. So the
number of threads starts small and doubles while each step moves clearly more. It stops when the process keeps
a CPU busy: more Python threads would only wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FEW, _MANY = 8, 64
_WINDOW_S = 0.15
_BUSY = 0.9
_PATIENCE_S = 2.0
_WORTH_IT = 1.15
_FAREWELL_S = 3.0


class ThreadPool:
    """Runs `work` in several threads. `work` takes a job, does it, and returns whether there may be more.

    `moved` returns how much has been done, in any unit. `jobs` fixes the number of threads; with 0 they begin
    with `few`.
    """

    def __init__(
        self, work: Callable[[], bool], moved: Callable[[], float], jobs: int = 0, few: int = FEW
    ) -> None:
        self._work = work
        self._moved = moved
        self._jobs = jobs
        self._few = few
        self._lock = threading.Lock()
        self._busy = 0
        self._finished = 0
        self._surplus = 0
        self._all_left = threading.Event()

    def run(self) -> None:
        """Block until no thread has work. An interruption is raised at once; then call `leave`."""
        self._grow(self._jobs or self._few)
        if not self._jobs:
            self._find_thread_count()
        while not self._all_left.wait(60.0):
            pass

    def leave(self) -> bool:
        """Wait a few seconds for running requests; return whether all threads have ended."""
        return self._all_left.wait(_FAREWELL_S)

    def _find_thread_count(self) -> None:
        best = 0.0
        while not self._all_left.is_set():
            before_s, begun = time.process_time(), time.monotonic()
            rate = self._measure()
            if rate is None:
                return
            # The last doubling did not help enough, so half of the threads end.
            if rate < best * _WORTH_IT:
                with self._lock:
                    self._surplus = self._busy // 2
                return
            best = rate
            is_busy = time.process_time() - before_s > _BUSY * (time.monotonic() - begun)
            if self._busy >= _MANY or is_busy:
                return
            self._grow(self._busy)

    def _measure(self) -> float | None:
        """The rate of the present number of threads; None when the work ran out.

        Measures until every thread has had time to finish something twice.
        """
        begun, before = time.monotonic(), self._moved()
        enough = self._finished + 2 * self._busy
        while not self._all_left.wait(_WINDOW_S):
            past_s, amount = time.monotonic() - begun, self._moved() - before
            if (amount > 0 and self._finished >= enough) or past_s > _PATIENCE_S:
                return amount / past_s
        return None

    def _grow(self, by: int) -> None:
        for _ in range(by):
            with self._lock:
                self._busy += 1
            try:
                # A thread that hangs in a request must not keep the program from ending.
                threading.Thread(target=self._run_thread, name="gofer-transfer", daemon=True).start()
            except RuntimeError:  # the system allows no more threads
                if not self._leave():
                    return
                raise

    def _run_thread(self) -> None:
        try:
            while self._work():
                self._finished += 1  # not locked: a lost count does no harm to the estimate
                if self._surplus and self._is_surplus():
                    return
        finally:
            self._leave()

    def _leave(self) -> bool:
        """Count one thread less; return whether it was the last."""
        with self._lock:
            self._busy -= 1
            if not self._busy:
                self._all_left.set()
            return not self._busy

    def _is_surplus(self) -> bool:
        with self._lock:
            self._surplus -= 1
            return self._surplus >= 0
