"""Runs the transfer of a plan's files: gives jobs to threads, notes errors, and decides when to give up.

Parts of files in progress go first, then the next file. Files that failed with a temporary error, and files
that changed during the read, are tried once more at the end.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gofer.errors import CredentialError, GoferError, StoreError, UsageError
from gofer.transfer.budget import Budget
from gofer.transfer.download import Download
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry
from gofer.transfer.journal import remove_stale_notes
from gofer.transfer.mover import LARGE, MIDDLING, LargeTransfer, Mover, SourceChanged
from gofer.transfer.planner import TransferPlan
from gofer.transfer.progress import TransferProgress
from gofer.transfer.relay import Relay
from gofer.transfer.result import Notes, TransferResult
from gofer.transfer.thread_pool import FEW, ThreadPool
from gofer.transfer.upload import Upload

_COMING_AGAIN = 10_000

# Files below this size take no share of the budget: even in all threads together they are small.
_TINY = 64 << 10
# The cost of a request, as a number of bytes, when rates of different numbers of threads are compared.
_REQUEST = 64 << 10
# After this many failures without a success in between, the cause is probably not in the single files.
_IN_A_ROW = 50
# With small files most time is spent in Python, where one thread runs at a time, so few threads begin.
_FEW_SMALL = 2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_DELETED_AT_ONCE = 256


class FileMove(NamedTuple):
    """A file to move; `last` says that a failure is final."""

    entry: FileEntry
    last: bool


class LargeFileProgress:
    """A large file in progress, whose parts are given to threads in order."""

    def __init__(self, attempt: FileMove, file: LargeTransfer) -> None:
        self.attempt = attempt
        self.file = file
        self.error: Exception | None = None
        self.given = 0
        self.done = 0


class FilePart(NamedTuple):
    """One part of a large file."""

    underway: LargeFileProgress
    number: int


class MoveQueue:
    """Any thread takes jobs; None means the end. The caller reports every FileMove with `ended`; for a large
    file, it first reports `opened`.
    """

    def __init__(self, items: Iterator[FileEntry]) -> None:
        self._items = items
        self._again: deque[FileEntry] = deque()
        self._open: deque[LargeFileProgress] = deque()
        self._unsettled = 0  # files that may still add parts, or be tried again
        self._change = threading.Condition()
        self._stopped = False

    def next_job(self) -> FileMove | FilePart | None:
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

    def opened(self, underway: LargeFileProgress) -> None:
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
        self._in_parts: set[LargeFileProgress] = set()
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
            job = self._jobs.next_job()
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
                underway = LargeFileProgress(attempt, self._mover.begin_large(entry, self._arrived))
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
                self._mover.move_small(entry)
        else:
            self._mover.move_small(entry)

    def _part(self, part: FilePart) -> None:
        underway = part.underway
        error: Exception | None = None
        try:
            underway.file.move_part(part.number)
        except (OSError, GoferError) as raised:
            error = raised
        if self._jobs.done(part, error):
            self._close(underway)

    def _close(self, underway: LargeFileProgress) -> None:
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


def run(
    plan: TransferPlan,
    *,
    jobs: int | None = None,
    progress: TransferProgress | None = None,
    state: Path | None = None,
) -> TransferResult:
    """Carry out the plan. Blocks. Idempotent: a repeated transfer continues an interrupted one.

    A file that fails does not stop the others; the result names it. Raises errors that concern every file: a
    credential, a full disk, a store that cannot be reached. However it ends, only complete files have their
    final names. `state` is a folder for notes, with which the upload of a large file continues after a crash.
    `jobs` overrides the plan's option.
    """
    begun = time.monotonic()
    progress = progress or TransferProgress()
    budget = Budget()
    remove_stale_notes(state)
    mover = _mover(plan, budget, state)
    executor = Executor(mover, plan.items(), budget, progress)
    progress.begin("moving", files=plan.files, size=plan.bytes)
    if plan.files:
        executor.run(plan.options.jobs if jobs is None else jobs, plan.bytes / plan.files)
    progress.begin("deleting")
    # After a failure nothing is deleted, because the source may not have been read completely.
    clean = not executor.failed and not executor.changed and not plan.odd
    deleted = _delete(mover, plan, executor) if clean else 0
    mover.close()
    progress.begin("done")
    wrong = executor.failed, executor.changed, plan.odd
    kept = plan.deletes - deleted
    return TransferResult(
        executor.files, executor.bytes, plan.skipped, deleted, kept, *wrong, time.monotonic() - begun
    )


def _mover(plan: TransferPlan, budget: Budget, state: Path | None) -> Mover:
    source, destination = plan.source, plan.destination
    if isinstance(source, LocalEnd) and isinstance(destination, StoreEnd):
        return Upload(source, destination, budget, state)
    if isinstance(source, StoreEnd) and isinstance(destination, LocalEnd):
        return Download(source, destination, budget, plan.parts)
    if isinstance(source, StoreEnd) and isinstance(destination, StoreEnd):
        return Relay(source, destination, budget, state)
    raise UsageError(
        f"`{source}` and `{destination}` are both on this machine", hint="copy them with `cp -r`"
    )


def _delete(mover: Mover, plan: TransferPlan, executor: Executor) -> int:
    """Delete files last, so that a transfer that fails half-way has removed nothing. Returns how many."""
    deleted = 0
    deletions = plan.deletions()
    while batch := list(islice(deletions, _DELETED_AT_ONCE)):
        try:
            mover.delete(batch)
            deleted += len(batch)
        except (OSError, GoferError) as error:
            executor.failed.add(batch[0].path, f"cannot be deleted: {explain(error)}")
            break
    return deleted
