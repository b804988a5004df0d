"""Reads the unread files of all folders, until what was read agrees with the files on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from gofer.snapshot.file_reader import FileReading, read, read_signature
from gofer.snapshot.folder_draft import FolderDraft
from gofer.snapshot.statcache import Signature
from gofer.snapshot.walk import unreadable

_ROUNDS = 3
_PROGRESS_BYTES = 1024 * 1024
# Two writes within this time may leave the same file time, on the slowest kernel clock, in ns.
_TICK_NS = 10_000_000
_LARGE_BYTES = 1024 * 1024
_LONG_WRITE_NS = 2_000_000_000


class _Item(NamedTuple):
    draft: FolderDraft
    name: str
    signature: Signature


class ReadTotals(NamedTuple):
    """The counts of the read, as in Snapshot."""

    sent_files: int
    sent_bytes: int
    changed: tuple[str, ...]


class _Reader:
    """One read of many files, with its counts."""

    def __init__(
        self, root: str, add: Callable[[str, bytes], bool], progress: Callable[[int, int], None]
    ) -> None:
        self._root = root
        self._add = add
        self._progress = progress
        self._reported = 0
        self.done = 0
        self.total = 0
        self.sent_files = 0
        self.sent_bytes = 0
        self.changed: set[str] = set()

    def path(self, item: _Item) -> str:
        """The path from the top of the folder."""
        return os.path.join(item.draft.folder.path, item.name)

    def read(self, item: _Item) -> bool:
        """Read one file into its draft. Notes it as changed when it differs from its last signature.

        Returns whether it was read before and has the same contents.
        """
        sent = 0

        def add(blob: str, data: bytes) -> None:
            nonlocal sent
            if self._add(blob, data):
                sent += len(data)
            self._advance(len(data))

        path = self.path(item)
        try:
            reading = read(os.path.join(self._root, path), item.signature, add)
        except OSError as error:
            raise unreadable(self._root, path, error, is_folder=False) from error
        before = item.draft.row(item.name)
        item.draft.set(item.name, reading)
        self.sent_files += sent > 0
        self.sent_bytes += sent
        is_same = before is not None and before == reading.row
        if reading.signature != item.signature or not reading.whole or (before and not is_same):
            self.changed.add(path)
        return is_same

    def _advance(self, size: int) -> None:
        """Report also within a large file, so that a person hears of it before it is read."""
        self.done += size
        if self.done - self._reported >= _PROGRESS_BYTES:
            self._reported = self.done
            self._progress(min(self.done, self.total), self.total)

    def check(self, item: _Item, began_ns: int, *, is_same: bool) -> _Item | None:
        """The file, if it must be read again; otherwise None. A file that is gone is removed from its draft.

        A file may be written during the read and still have its old time: within one tick of the clock, or by
        one long write, which sets the time at its beginning. A file whose time is so close to the round's
        beginning must be read twice with equal contents.
        """
        path = self.path(item)
        now = read_signature(os.path.join(self._root, path))
        if now == item.draft.signature(item.name):
            near_ns = _LONG_WRITE_NS if now[3] >= _LARGE_BYTES else _TICK_NS
            return item if not is_same and max(now[0], now[1]) + near_ns >= began_ns else None
        self.changed.add(path)
        if now is None:
            item.draft.set(item.name, FileReading(None, None, True))
            return None
        return item._replace(signature=now)


def read_all(
    root: str,
    drafts: list[FolderDraft],
    add: Callable[[str, bytes], bool],
    progress: Callable[[int, int], None],
) -> ReadTotals:
    """Read all unread files. Files that change meanwhile are read again, a few times, and named in the
    result.

    SnapshotError when a file cannot be read. Blocking.
    """
    reader = _Reader(root, add, progress)
    items = [_Item(draft, name, draft.signature(name)) for draft in drafts for name in draft.unread]
    reader.total = sum(item.signature[3] for item in items)
    for _ in range(_ROUNDS):
        began_ns = time.time_ns()
        same = [reader.read(item) for item in items]
        checked = [reader.check(item, began_ns, is_same=s) for item, s in zip(items, same, strict=True)]
        items = [item for item in checked if item]
        if not items:
            break
        # Let the clock move on, so that writes in the next round get another time.
        time.sleep(2 * _TICK_NS / 1e9)
    progress(reader.total, reader.total)
    return ReadTotals(reader.sent_files, reader.sent_bytes, tuple(sorted(reader.changed)))
