"""The numbers of a running transfer, for progress displays."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

_WINDOW_S = 10.0


class Numbers(NamedTuple):
    """A transfer at one moment.

    `bytes_per_s` is the rate of the last seconds; `left_s` is None when unknown.
    """

    phase: str
    compared: int
    files: int
    bytes: int
    all_files: int
    all_bytes: int
    failed: int
    elapsed_s: float
    bytes_per_s: float
    files_per_s: float
    left_s: float | None


class TransferProgress:
    """Counters that any thread may change and read.

    The phases are `looking`, `moving`, `deleting`, `done`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._phase = "looking"
        self._compared = self._files = self._bytes = self._all_files = self._all_bytes = self._failed = 0
        self._recent: deque[tuple[float, int, int]] = deque()

    def add_compared(self, count: int = 1) -> None:
        """Count more files as compared."""
        self._compared += count  # only one thread plans, so no lock is needed

    def begin(self, phase: str, *, files: int = 0, size: int = 0) -> None:
        """Begin a phase, with this much to do."""
        with self._lock:
            self._phase = phase
            self._all_files += files
            self._all_bytes += size
            # Rates of one phase say nothing about the next.
            self._recent.clear()
            if phase == "moving":
                self._begun = time.monotonic()

    def add(self, *, size: int = 0, files: int = 0, failed: int = 0) -> None:
        """Count this much as done, or as undone when negative."""
        with self._lock:
            self._bytes += size
            self._files += files
            self._failed += failed

    def moved(self) -> int:
        """The number of bytes that are done."""
        return self._bytes

    def read(self) -> Numbers:
        """The numbers now. The rate is that of the last calls, so call it whenever the numbers are shown."""
        with self._lock:
            now = time.monotonic()
            self._recent.append((now, self._bytes, self._files))
            while len(self._recent) > 2 and now - self._recent[0][0] > _WINDOW_S:
                self._recent.popleft()
            then, old_bytes, old_files = self._recent[0]
            past_s = now - then
            rate = (self._bytes - old_bytes) / past_s if past_s > 0 else 0.0
            files_rate = (self._files - old_files) / past_s if past_s > 0 else 0.0
            return Numbers(
                self._phase,
                self._compared,
                self._files,
                self._bytes,
                self._all_files,
                self._all_bytes,
                self._failed,
                now - self._begun,
                rate,
                files_rate,
                self._left_s(rate, files_rate),
            )

    def _left_s(self, rate: float, files_rate: float) -> float | None:
        """The longer of two estimates: by bytes, and by number of files."""
        if self._phase != "moving" or (rate <= 0 and files_rate <= 0):
            return None
        by_bytes = (self._all_bytes - self._bytes) / rate if rate > 0 else 0.0
        by_files = (self._all_files - self._files) / files_rate if files_rate > 0 else 0.0
        return max(by_bytes, by_files, 0.0)
