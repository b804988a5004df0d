"""Reads the unread files of all folders until what was read agrees with what is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from gofer.snapshot.draft import Draft
from gofer.snapshot.reading import look, read
from gofer.snapshot.statcache import Signature
from gofer.snapshot.walk import unreadable

_ROUNDS = 3
_PROGRESS_BYTES = 1024 * 1024


class _Item(NamedTuple):
    draft: Draft
    name: str
    signature: Signature


class Seen(NamedTuple):
    """What reading came to; as in Snapshot."""

    sent_files: int
    sent_bytes: int
    changed: tuple[str, ...]


class _Reader:
    """One pass over a tree, with its counts."""

    def __init__(
        self, root: str, add: Callable[[str, bytes], bool], progress: Callable[[int, int], None]
    ) -> None:
        self._root = root
        self._add = add
        self._progress = progress
        self._told = 0
        self.done = 0
        self.total = 0
        self.sent_files = 0
        self.sent_bytes = 0
        self.changed: set[str] = set()

    def path(self, item: _Item) -> str:
        """From the top of the folder."""
        return os.path.join(item.draft.folder.path, item.name)

    def read(self, item: _Item) -> None:
        """Read one file into its draft, and note it when it is not as it was when it was last looked at."""
        sent = 0

        def add(blob: str, data: bytes) -> None:
            nonlocal sent
            if self._add(blob, data):
                sent += len(data)

        path = self.path(item)
        try:
            reading = read(os.path.join(self._root, path), item.signature, add)
        except OSError as error:
            raise unreadable(self._root, path, error, is_folder=False) from error
        item.draft.set(item.name, reading)
        self._count(sent, item.signature[3])
        if reading.signature != item.signature or not reading.whole:
            self.changed.add(path)

    def _count(self, sent: int, size: int) -> None:
        self.sent_files += sent > 0
        self.sent_bytes += sent
        self.done += size
        if self.done - self._told >= _PROGRESS_BYTES:
            self._told = self.done
            self._progress(self.done, self.total)

    def check(self, item: _Item) -> _Item | None:
        """The item as it is now if that is not what was read, or None."""
        path = self.path(item)
        now = look(os.path.join(self._root, path))
        if now == item.draft.signature(item.name):
            return None
        self.changed.add(path)
        return item._replace(signature=now) if now else None


def read_all(
    root: str, drafts: list[Draft], add: Callable[[str, bytes], bool], progress: Callable[[int, int], None]
) -> Seen:
    """Read everything unread. What changes meanwhile is read again, a few times, and named in the answer.

    SnapshotError when a file cannot be read.
    """
    reader = _Reader(root, add, progress)
    items = [_Item(draft, name, draft.signature(name)) for draft in drafts for name in draft.unread]
    reader.total = sum(item.signature[3] for item in items)
    for _ in range(_ROUNDS):
        for item in items:
            reader.read(item)
        items = [now for item in items if (now := reader.check(item))]
        if not items:
            break
    progress(reader.total, reader.total)
    return Seen(reader.sent_files, reader.sent_bytes, tuple(sorted(reader.changed)))
