"""Compares both ends and decides what to send, skip and delete. Changes nothing.

Both ends are read as streams sorted by path, and long lists are kept in a file. So a million objects need no
more memory than a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from gofer.errors import KeyNotFound, UsageError
from gofer.transfer.compare import SAME, UNSURE, ContentComparer, OutOfOrder, judge, pair, sort
from gofer.transfer.endpoints import End, StoreEnd, check_apart
from gofer.transfer.entries import FileEntry, from_record, to_record
from gofer.transfer.progress import TransferProgress
from gofer.transfer.result import Notes
from gofer.transfer.spool import Spool
from gofer.transfer.walk import FileSelection


class TransferOptions(NamedTuple):
    """With `jobs` 0, gofer finds the best number of requests at a time. `checksum` compares files of equal
    size by content instead of by time. `delete` removes files that the source does not have.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    checksum: bool = False
    delete: bool = False
    jobs: int = 0


DEFAULTS = TransferOptions()


class TransferPlan:
    """What a transfer will do: counts, bytes, and the files as `items` and `deletions`. Made by `plan`.

    `odd` are files of the source that cannot be sent. `parts` are unfinished downloads in the destination
    that only this transfer could continue.
    """

    def __init__(self, source: End, destination: End, options: TransferOptions) -> None:
        self.source = source
        self.destination = destination
        self.options = options
        self.files = self.bytes = 0
        self.skipped = self.skipped_bytes = 0
        self.deletes = self.delete_bytes = 0
        self.odd = Notes()
        self.parts: list[str] = []
        self._items = Spool()
        self._deletions = Spool()

    def items(self) -> Iterator[FileEntry]:
        """The files to send, sorted by path. One reader at a time."""
        return map(from_record, self._items)

    def deletions(self) -> Iterator[FileEntry]:
        """The files of the destination that the source does not have. One reader at a time."""
        return map(from_record, self._deletions)

    def send(self, entry: FileEntry) -> None:
        self._items.add(to_record(entry))
        self.files += 1
        self.bytes += entry.size

    def skip(self, entry: FileEntry) -> None:
        self.skipped += 1
        self.skipped_bytes += entry.size

    def delete(self, entry: FileEntry) -> None:
        self._deletions.add(to_record(entry))
        self.deletes += 1
        self.delete_bytes += entry.size


def plan(
    source: End,
    destination: End,
    options: TransferOptions = DEFAULTS,
    progress: TransferProgress | None = None,
) -> TransferPlan:
    """Compare the ends. Blocks; lists each end once, or twice if a listing is not sorted.

    Raises UsageError when the source does not exist or the ends overlap, and the errors of the stores.
    """
    check_apart(source, destination)
    progress = progress or TransferProgress()
    try:
        return _Planner(source, destination, options, progress).compare(sorting=False)
    except OutOfOrder:  # accounts with a hierarchical namespace list in another order
        return _Planner(source, destination, options, progress).compare(sorting=True)


class _Planner:
    def __init__(
        self, source: End, destination: End, options: TransferOptions, progress: TransferProgress
    ) -> None:
        self._plan = TransferPlan(source, destination, options)
        self._selection = FileSelection(options.include, options.exclude)
        self._progress = progress

    def compare(self, *, sorting: bool) -> TransferPlan:
        plan = self._plan
        single, left = self._source()
        if single:
            pairs: Iterator[tuple[FileEntry | None, FileEntry | None]] = iter(
                [(single, plan.destination.entry())]
            )
        else:
            right = self._destination()
            pairs = pair(sort(left), sort(right)) if sorting else pair(left, right)
        with ContentComparer(plan.source, plan.destination, plan.options.jobs) as comparer:
            for entry, other in pairs:
                self._apply_verdict(entry, other, comparer)
                self._progress.add_compared()
            self._apply_results(comparer.results(ahead=0))
        return plan

    def _apply_verdict(
        self, entry: FileEntry | None, other: FileEntry | None, comparer: ContentComparer
    ) -> None:
        plan = self._plan
        if entry is None:
            if other and plan.options.delete:
                plan.delete(other)
            return
        verdict = judge(entry, other, checksum=plan.options.checksum)
        if verdict == UNSURE and other:
            comparer.submit(entry, other)
            self._apply_results(comparer.results())
        elif verdict == SAME:
            plan.skip(entry)
        else:
            plan.send(entry)

    def _apply_results(self, results: Iterator[tuple[FileEntry, bool]]) -> None:
        for entry, equal in results:
            if equal:
                self._plan.skip(entry)
            else:
                self._plan.send(entry)

    def _source(self) -> tuple[FileEntry | None, Iterator[FileEntry]]:
        """The entry of a source that is one file, or those of a folder; UsageError when the source does not
        exist.
        """
        end = self._plan.source
        if isinstance(end, StoreEnd):
            return self._stored_source(end)
        found = end.entry()
        if not found and not end.path.is_dir():
            what = "is neither a file nor a folder" if end.path.exists() else "is not there"
            raise UsageError(f"`{end}` {what}")
        return found, end.walk(self._selection, self._plan.odd.add, follow=True).entries()

    def _stored_source(self, end: StoreEnd) -> tuple[FileEntry | None, Iterator[FileEntry]]:
        listed = end.entries(self._selection)
        # Two entries decide whether the source is one object or a folder.
        first, second = next(listed, None), next(listed, None)
        if first and not first.path and not second:
            return first, listed
        if first is None and end.prefix and next(end.store.list(end.prefix), None) is None:
            raise KeyNotFound(f"there is nothing at {end}")
        if first and not first.path:
            if first.size:  # an empty object with a folder's name is how some tools mark a folder
                self._plan.odd.add(end.prefix, "is both an object and a folder; name it alone to transfer it")
            first = None
        return None, chain([entry for entry in (first, second) if entry], listed)

    def _destination(self) -> Iterator[FileEntry]:
        end = self._plan.destination
        if isinstance(end, StoreEnd):
            return (entry for entry in end.entries(self._selection) if entry.path)
        if not end.path.is_dir():
            return iter(())
        walk = end.walk(self._selection, lambda path, why: None, follow=False)
        if not self._plan.options.include and not self._plan.options.exclude:
            walk = walk._replace(part=self._plan.parts.append)
        return walk.entries()
