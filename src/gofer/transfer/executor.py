"""Moves the files of a plan: jobs to threads, errors to notes, and the decision when to give up."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator

from gofer.errors import CredentialError, GoferError, StoreError
from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry
from gofer.transfer.jobs import FileMove, FilePart, MoveQueue, Underway
from gofer.transfer.mover import LARGE, MIDDLING, Mover, SourceChanged
from gofer.transfer.notes import Notes
from gofer.transfer.progress import TransferProgress
from gofer.transfer.thread_pool import FEW, ThreadPool

# Files below this need no share of the budget: a full crew of them is little.
_TINY = 64 << 10
# What a request costs next to the bytes it carries, when comparing crews.
_REQUEST = 64 << 10
# So many failures with no success between them are not about single files any more.
_IN_A_ROW = 50
# Small files are mostly Python's work, of which one thread at a time can do some.
_FEW_SMALL = 2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Engine:
    """One transfer's moving part; `files`, `bytes`, `failed` and `changed` are its outcome."""

    def __init__(
        self, mover: Mover, items: Iterator[FileEntry], budget: Budget, progress: TransferProgress
    ) -> None:
        self.files = self.bytes = 0
        self.failed, self.changed = Notes(), Notes()
        self._mover = mover
        self._jobs = MoveQueue(items)
        self._budget = budget
        self._progress = progress
        self._lock = threading.Lock()
        self._in_parts: set[Underway] = set()
        self._failures_in_a_row = 0
        self._fatal: BaseException | None = None

    def run(self, jobs: int, mean_size: float = 0.0) -> None:
        """Move all there is. Raises what makes going on senseless, and passes interruptions on.

        `jobs` and, where that is 0, the mean size of the files decide how many threads begin.
        """
        crew = ThreadPool(self._work, self._moved, jobs, _FEW_SMALL if mean_size < MIDDLING else FEW)
        try:
            crew.run()
        finally:
            self._jobs.stop()
            if crew.leave():  # else a thread may still be writing to what would be closed
                for underway in self._in_parts:
                    underway.file.abandon()
        if self._fatal:
            raise self._fatal

    def _moved(self) -> float:
        return self._progress.moved() + self.files * _REQUEST

    def _work(self) -> bool:
        try:
            job = self._jobs.take()
            if isinstance(job, FilePart):
                self._part(job)
            elif job:
                self._attempt(job)
            return job is not None
        except BaseException as error:
            self._give_up(error)
            return False

    def _attempt(self, attempt: FileMove) -> None:
        entry = attempt.entry
        try:
            if entry.size >= LARGE:
                underway = Underway(attempt, self._mover.large(entry, self._arrived))
                with self._lock:
                    self._in_parts.add(underway)
                if underway.file.parts:
                    self._jobs.opened(underway)
                else:  # an earlier run had brought all of it
                    self._close(underway)
                return
            self._small(entry)
        except (OSError, GoferError) as error:
            self._end(attempt, error)
        else:
            self._progress.add(size=entry.size, files=1)
            self._end(attempt, None)

    def _small(self, entry: FileEntry) -> None:
        if _TINY < entry.size < MIDDLING:
            with self._budget.share(entry.size):
                self._mover.small(entry)
        else:
            self._mover.small(entry)

    def _part(self, part: FilePart) -> None:
        underway = part.underway
        error: Exception | None = None
        try:
            underway.file.do(part.number)
        except (OSError, GoferError) as raised:
            error = raised
        if self._jobs.done(part, error):
            self._close(underway)

    def _close(self, underway: Underway) -> None:
        """The last of its parts is over."""
        error = underway.error
        with self._lock:
            self._in_parts.discard(underway)
        if error is None and underway.done == underway.file.parts:
            try:
                underway.file.finish()
                self._progress.add(files=1)
                self._end(underway.attempt, None)
                return
            except (OSError, GoferError) as raised:
                error = raised
        underway.file.abandon()
        if error:  # else the transfer was stopped
            self._end(underway.attempt, error)

    def _end(self, attempt: FileMove, error: Exception | None) -> None:
        if error is None:
            with self._lock:
                self.files += 1
                self.bytes += attempt.entry.size
                self._failures_in_a_row = 0
            self._jobs.ended(attempt)
            return
        if _is_hopeless(error):
            self._give_up(error)
        if self._jobs.ended(attempt, again=_may_pass(error)):
            return
        self._note(attempt.entry, error)

    def _note(self, entry: FileEntry, error: Exception) -> None:
        self._progress.add(failed=1)
        if isinstance(error, SourceChanged):
            self.changed.add(entry.path, explain(error))
            return
        self.failed.add(entry.path, explain(error))
        with self._lock:
            self._failures_in_a_row += 1
            too_many = self._failures_in_a_row >= _IN_A_ROW
        if too_many:
            words = f"{_IN_A_ROW} files in a row failed, the last: {explain(error)}"
            self._give_up(StoreError(words, hint=getattr(error, "hint", None)))

    def _arrived(self, size: int) -> None:
        self._progress.add(size=size)

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            self._fatal = self._fatal or error
        self._jobs.stop()


def explain(error: BaseException) -> str:
    """One line for a person."""
    if isinstance(error, GoferError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _may_pass(error: Exception) -> bool:
    """Whether another try, later, has a chance."""
    return isinstance(error, SourceChanged) or type(error) is StoreError


def _is_hopeless(error: Exception) -> bool:
    """Whether every other file would fail alike."""
    return isinstance(error, CredentialError) or (isinstance(error, OSError) and error.errno in _FULL)
