"""Call a function for many items in a few threads, and report progress.

`parallel_map` returns the results for a list of items. `each` takes an iterator of any length, returns
nothing, and ends at the first error. `BackgroundCall` is one call that is waited for only for some time.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Callable, Dict, Generic, Iterable, List, TypeVar

# A function that receives one progress message.
SendMessage = Callable[[Dict[str, object]], None]

T = TypeVar("T")
R = TypeVar("R")

_REPORT_S = 1.0


class ProgressTally:
    """Counts of files and bytes: done, and found so far. Reports them about once a second. Safe in several
    threads.
    """

    def __init__(self, say: SendMessage) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._next_report = 0.0
        self.files = self.of_files = self.bytes = self.of_bytes = 0

    def add_file(self, size: int) -> None:
        """Count one more file that has to be moved."""
        with self._lock:
            self.of_files += 1
            self.of_bytes += size
            self._report()

    def add_moved(self, size: int, *, files: int = 0) -> None:
        """Count `size` more bytes as moved, and with them `files` whole files."""
        with self._lock:
            self.files += files
            self.bytes += size
            self._report()

    def report(self) -> None:
        """Report the counts now."""
        with self._lock:
            self._next_report = 0.0
            self._report()

    def _report(self) -> None:
        now = time.monotonic()
        if now >= self._next_report:
            self._next_report = now + _REPORT_S
            counts = {"files": self.files, "of_files": self.of_files}
            self._say({**counts, "bytes": self.bytes, "of_bytes": self.of_bytes})


def parallel_map(act: Callable[[T], R], items: Iterable[T], *, at_once: int) -> List[R]:
    """The results of `act` for all items, in order, from at most `at_once` threads.

    Blocks. Raises the error of the first item that has one, when all calls that began have ended; then some
    calls may never begin.
    """
    todo = list(items)
    if len(todo) < 2:
        return [act(item) for item in todo]
    from concurrent.futures import ThreadPoolExecutor  # slow to load, and one item needs no thread

    with ThreadPoolExecutor(min(len(todo), at_once)) as pool:
        return list(pool.map(act, todo))


def each(items: Iterable[T], act: Callable[[T], None], *, at_once: int) -> None:
    """Call `act` for every item, in `at_once` threads. Blocks. Raises the first error at once, while other
    calls may still be running.

    Items are taken only as fast as threads work on them, so `items` may be an endless iterator.
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


class BackgroundCall(Generic[T]):
    """A call that begins at once, in a thread of its own. The end of the process does not wait for it."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._results: List[T] = []
        self._errors: List[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="gofer-call", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def result(self, limit_s: float) -> T:
        """The result. Blocks for at most `limit_s`, then raises TimeoutError; an error of the call passes
        through.
        """
        self._thread.join(max(limit_s, 0.0))
        if self._thread.is_alive():
            raise TimeoutError
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._act())
        except BaseException as error:
            self._errors.append(error)
