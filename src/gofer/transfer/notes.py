"""Things to tell a person about single files: all counted, the first ones named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

_NAMED = 1000


class FileNote(NamedTuple):
    """A file and what about it; `path` is relative to the source."""

    path: str
    why: str


class Notes:
    """May be added to from any thread. Its length counts all, iterating gives those that are named."""

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
