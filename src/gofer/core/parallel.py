"""Doing many small things several at a time, and counting them."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, TypeVar

# Takes one message of progress.
Say = Callable[[Dict[str, Any]], None]

T = TypeVar("T")

_SAY_S = 1.0


class ProgressTally:
    """How much is done of how much that is known of so far, said now and then. Any thread may add."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._next_say = 0.0
        self.files = self.of_files = self.bytes = self.of_bytes = 0

    def found(self, size: int) -> None:
        """One more file is to be moved."""
        with self._lock:
            self.of_files += 1
            self.of_bytes += size
            self._tell()

    def moved(self, size: int, *, files: int = 0) -> None:
        """So many more bytes are there, and with them so many whole files."""
        with self._lock:
            self.files += files
            self.bytes += size
            self._tell()

    def tell(self) -> None:
        """Say it now."""
        with self._lock:
            self._next_say = 0.0
            self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        if now >= self._next_say:
            self._next_say = now + _SAY_S
            counts = {"files": self.files, "of_files": self.of_files}
            self._say({**counts, "bytes": self.bytes, "of_bytes": self.of_bytes})


def each(items: Iterable[T], act: Callable[[T], None], *, at_once: int) -> None:
    """Call `act` for every item, in threads; raises the first error at once, with others still at work.

    At most a few items for each thread are held, so `items` may be endless.
    """
    todo: queue.Queue[List[T]] = queue.Queue(2 * at_once)
    failures: List[BaseException] = []

    def work() -> None:
        while True:
            some = todo.get()
            if not some:
                return
            try:
                if not failures:
                    act(some[0])
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for item in items:
        if failures:
            break
        todo.put([item])
    for _ in threads:
        todo.put([])
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(0.05)
    if failures:
        raise failures[0]
