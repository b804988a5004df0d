"""Runs the transfer of a plan's files: gives jobs to threads, notes errors, and decides when to give up."""

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

# Files below this size take no share of the budget: even in all threads together they are small.
_TINY = 64 << 10
# The cost of a request, as a number of bytes, when rates of different numbers of threads are compared.
_REQUEST = 64 << 10
# After this many failures without a success in between, the cause is probably not in the single files.
_IN_A_ROW = 50
# With small files most time is spent in Python, where one thread runs at a time, so few threads begin.
_FEW_SMALL = 2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Executor:
    """The transfer of one plan. `files`, `bytes`, `failed` and `changed` are its result."""

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
        """Move all files. Blocking. Raises an error that concerns all files; an interruption is raised at
        once.

        `jobs` is the number of threads. If it is 0, the mean file size decides how many threads begin.
        """
        threads = ThreadPool(self._work, self._moved, jobs, _FEW_SMALL if mean_size < MIDDLING else FEW)
        try:
            threads.run()
        finally:
            self._jobs.stop()
            if threads.leave():  # otherwise a thread may still write to a file that would be closed here
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
                else:  # an earlier run had moved all its parts
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
        """End a large file whose last part is done."""
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
        if error:  # without an error, the transfer was stopped
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
    """The error in one line, for people."""
    if isinstance(error, GoferError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _may_pass(error: Exception) -> bool:
    """Whether a later try may succeed."""
    return isinstance(error, SourceChanged) or type(error) is StoreError


def _is_hopeless(error: Exception) -> bool:
    """Whether every other file would fail in the same way."""
    return isinstance(error, CredentialError) or (isinstance(error, OSError) and error.errno in _FULL)
