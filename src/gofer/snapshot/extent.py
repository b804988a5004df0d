"""Counts, during the walk of a code folder, how much of a snapshot is outside a given folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gofer.snapshot.statcache import FIELDS

if TYPE_CHECKING:
    from gofer.snapshot.walk import WalkedFolder

_SIZE = 3  # of the fields of a signature


class OutsideLimit:
    """Calls `exceeded(files, bytes)` once, when more than these are outside of the folder `inside`.

    `inside` is a path from the top of the code folder. An exception of `exceeded` ends the walk.
    """

    def __init__(self, inside: str, *, files: int, size: int, exceeded: Callable[[int, int], None]) -> None:
        self._inside = inside
        self._most_files = files
        self._most_size = size
        self._exceeded = exceeded
        self._is_answered = False
        self.begin()

    def begin(self) -> None:
        """Reset the counts for another walk."""
        self._files = 0
        self._size = 0

    def add(self, folder: WalkedFolder) -> None:
        if self._is_answered or f"{folder.path}/".startswith(f"{self._inside}/"):
            return
        files, size = extent_of(folder)
        self._files += files
        self._size += size
        if self._files > self._most_files or self._size > self._most_size:
            self._is_answered = True
            self._exceeded(self._files, self._size)


def extent_of(folder: WalkedFolder) -> tuple[int, int]:
    """The number of files and bytes directly in a walked folder, without its subfolders."""
    if folder.unchanged and folder.record:
        return folder.record.entries, folder.record.size
    return len(folder.files), sum(folder.values[_SIZE::FIELDS])
