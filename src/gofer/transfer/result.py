"""The result of a transfer, with remarks about single files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

_NAMED = 1000


class FileNote(NamedTuple):
    """A remark about a file; `path` is relative to the source."""

    path: str
    why: str


class Notes:
    """Any thread may add. The length counts all remarks; iteration gives those that were kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._named: list[FileNote] = []

    def add(self, path: str, why: str) -> None:
        with self._lock:
            self._count += 1
            if len(self._named) < _NAMED:
                self._named.append(FileNote(path, why))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[FileNote]:
        return iter(self._named)


class TransferResult(NamedTuple):
    """What was done and what was not.

    `failed` files could not be moved. `changed` files were written to during the read. `odd` files are not
    regular files. `kept` counts the deletions that were not done because of any of these.
    """

    files: int
    bytes: int
    skipped: int
    deleted: int
    kept: int
    failed: Notes
    changed: Notes
    odd: Notes
    elapsed_s: float

    @property
    def ok(self) -> bool:
        """Whether the destination now has everything that the source has."""
        return not self.failed and not self.changed and not self.odd
