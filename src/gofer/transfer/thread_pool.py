"""The threads of a transfer: as many as serve it best, found by trying.

Every further request in flight helps while the way to the store is long, and costs processor time where it is
short. So a crew begins small and doubles for as long as that moves clearly more, and this process does not
keep a processor busy as it is: Python's threads then only wait for each other.
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
    """Runs `work`, which takes a job, does it, and says whether there may be more, in several threads.

    `moved` tells how much was done so far, in any unit. With `jobs` the number of threads is that, else they
    begin with `few`.
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
        """Blocks until no thread has work. An interruption is passed on at once; see `leave`."""
        self._grow(self._jobs or self._few)
        if not self._jobs:
            self._find_the_number()
        while not self._all_left.wait(60.0):
            pass

    def leave(self) -> bool:
        """Wait for what is in flight, but not long: whether all of them came back."""
        return self._all_left.wait(_FAREWELL_S)

    def _find_the_number(self) -> None:
        best = 0.0
        while not self._all_left.is_set():
            before_s, begun = time.process_time(), time.monotonic()
            rate = self._measure()
            if rate is None:
                return
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
        """What the present number moves in a second; None when the work ran out.

        A rate is one only when everybody had the time to finish something, and once more.
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
                threading.Thread(target=self._life, name="gofer-transfer", daemon=True).start()
            except RuntimeError:  # the system has no more of them
                if not self._leave():
                    return
                raise

    def _life(self) -> None:
        try:
            while self._work():
                self._finished += 1  # two at once may count as one: it is an estimate
                if self._surplus and self._may_go():
                    return
        finally:
            self._leave()

    def _leave(self) -> bool:
        """One fewer; whether it was the last."""
        with self._lock:
            self._busy -= 1
            if not self._busy:
                self._all_left.set()
            return not self._busy

    def _may_go(self) -> bool:
        with self._lock:
            self._surplus -= 1
            return self._surplus >= 0
