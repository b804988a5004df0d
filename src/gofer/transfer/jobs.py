"""Gives work to the threads of a transfer: parts of files in progress first, then the next file.

Files that failed with a temporary error, and files that changed during the read, are tried once more at the
end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import InParts

_COMING_AGAIN = 10_000


class FileMove(NamedTuple):
    """A file to move; `last` says that a failure is final."""

    entry: FileEntry
    last: bool


class Underway:
    """A large file in progress, whose parts are given to threads in order."""

    def __init__(self, attempt: FileMove, file: InParts) -> None:
        self.attempt = attempt
        self.file = file
        self.error: Exception | None = None
        self.given = 0
        self.done = 0


class FilePart(NamedTuple):
    """One part of a large file."""

    underway: Underway
    number: int


class MoveQueue:
    """Any thread takes jobs; None means the end. The caller reports every FileMove with `ended`; for a large
    file, it first reports `opened`.
    """

    def __init__(self, items: Iterator[FileEntry]) -> None:
        self._items = items
        self._again: deque[FileEntry] = deque()
        self._open: deque[Underway] = deque()
        self._unsettled = 0  # files that may still add parts, or be tried again
        self._change = threading.Condition()
        self._stopped = False

    def take(self) -> FileMove | FilePart | None:
        """The next job; waits while there may be another. None when there is no more, or after `stop`."""
        with self._change:
            while not self._stopped:
                job = self._part() or self._attempt()
                if job:
                    return job
                if not self._unsettled:
                    break
                self._change.wait()
            return None

    def opened(self, underway: Underway) -> None:
        """Report that a large file has begun: its parts become jobs."""
        with self._change:
            self._open.append(underway)
            self._change.notify_all()

    def done(self, part: FilePart, error: Exception | None) -> bool:
        """Report the end of a part; an error ends the file. Returns whether the whole file has ended."""
        underway = part.underway
        with self._change:
            underway.done += 1
            underway.error = underway.error or error
            given_up = underway.error is not None or self._stopped
            return underway.done == underway.given and (given_up or underway.given == underway.file.parts)

    def ended(self, attempt: FileMove, *, again: bool = False) -> bool:
        """Report the end of a file. With `again` it is tried once more; returns False when it cannot be."""
        with self._change:
            self._unsettled -= 1
            # The bound keeps memory small when everything fails.
            comes = again and not attempt.last and len(self._again) < _COMING_AGAIN
            if comes:
                self._again.append(attempt.entry)
            if comes or not self._unsettled:
                self._change.notify_all()
            return comes

    def stop(self) -> None:
        """Give out no more jobs."""
        with self._change:
            self._stopped = True
            self._change.notify_all()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def _part(self) -> FilePart | None:
        while self._open:
            first = self._open[0]
            if first.given < first.file.parts and not first.error:
                first.given += 1
                return FilePart(first, first.given - 1)
            self._open.popleft()
        return None

    def _attempt(self) -> FileMove | None:
        entry = next(self._items, None)
        last = entry is None
        if last and self._again:
            entry = self._again.popleft()
        if entry is None:
            return None
        self._unsettled += 1
        return FileMove(entry, last)
