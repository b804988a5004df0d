"""Hands out work to the threads of a transfer: parts of files that are under way first, then the next file.

What failed in a way that may pass, and files that changed while they were read, come again once, at the end.
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
    """A file to move; `last` when a failure is final."""

    entry: FileEntry
    last: bool


class Underway:
    """A large file whose parts are handed out one after the other."""

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
    """Any thread takes jobs; None ends it. Every FileMove is answered by `ended`, one on a large file by
    `opened` first, if it gets so far."""

    def __init__(self, items: Iterator[FileEntry]) -> None:
        self._items = items
        self._again: deque[FileEntry] = deque()
        self._open: deque[Underway] = deque()
        self._unsettled = 0  # attempts that may still bring parts, or come again
        self._change = threading.Condition()
        self._stopped = False

    def take(self) -> FileMove | FilePart | None:
        """The next job; waits while one may still come up. None when there is no more, or after `stop`."""
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
        """A large file has begun: its parts are jobs now."""
        with self._change:
            self._open.append(underway)
            self._change.notify_all()

    def done(self, part: FilePart, error: Exception | None) -> bool:
        """The part is over; an error ends the file. Whether the file has ended with it."""
        underway = part.underway
        with self._change:
            underway.done += 1
            underway.error = underway.error or error
            given_up = underway.error is not None or self._stopped
            return underway.done == underway.given and (given_up or underway.given == underway.file.parts)

    def ended(self, attempt: FileMove, *, again: bool = False) -> bool:
        """The attempt is over. With `again` it comes once more; False when it cannot."""
        with self._change:
            self._unsettled -= 1
            comes = again and not attempt.last and len(self._again) < _COMING_AGAIN
            if comes:
                self._again.append(attempt.entry)
            if comes or not self._unsettled:
                self._change.notify_all()
            return comes

    def stop(self) -> None:
        """Give out nothing more."""
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
