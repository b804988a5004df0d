"""Compares contents, several files at a time, where size and time do not decide."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from gofer.errors import StoreError
from gofer.transfer.contents import are_equal
from gofer.transfer.endpoints import End
from gofer.transfer.entries import FileEntry

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_THREADS = 16
_AHEAD = 64


class Checker:
    """A context. Answers come in the order of the questions. For use by one thread."""

    def __init__(self, source: End, destination: End, jobs: int) -> None:
        self._ends = source, destination
        self._jobs = jobs or _THREADS
        self._pool: ThreadPoolExecutor | None = None
        self._asked: deque[tuple[FileEntry, Future[bool]]] = deque()

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def ask(self, entry: FileEntry, other: FileEntry) -> None:
        """Start to compare an entry of the source with the entry of the destination."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._jobs, "gofer-compare")
        self._asked.append((entry, self._pool.submit(self._compare, entry, other)))

    def answers(self, *, ahead: int = _AHEAD) -> Iterator[tuple[FileEntry, bool]]:
        """The oldest answers, until only `ahead` are outstanding. Waits for them."""
        while len(self._asked) > ahead:
            entry, equal = self._asked.popleft()
            yield entry, equal.result()

    def _compare(self, entry: FileEntry, other: FileEntry) -> bool:
        try:
            return are_equal(*self._ends, entry, other)
        except (OSError, StoreError):  # then send the file: the transfer reports what is wrong
            return False
