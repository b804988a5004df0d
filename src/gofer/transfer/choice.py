"""Selects the files of a transfer by patterns as in a `.gitignore`, relative to the top of the folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gofer.snapshot.patterns import PatternList


class FileSelection:
    """A file is selected when `include` is empty or names the file or a folder above it, and `exclude` names
    neither.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _lines(include)
        self._exclude = _lines(exclude)
        # Files come folder by folder, so the verdict on a folder is used many times in a row.
        self._folder_verdict = lru_cache(maxsize=1024)(self._judge_folder)

    def takes(self, path: bytes) -> bool:
        """Whether the file is selected. An empty path, which is an end that is itself a file, always is."""
        if not path or (self._include is None and self._exclude is None):
            return True
        folder, _, name = path.rpartition(b"/")
        entered, included = self._folder_verdict(folder) if folder else (True, self._include is None)
        if not entered or _matches(self._exclude, name, path, is_folder=False):
            return False
        return included or _matches(self._include, name, path, is_folder=False)

    def enters(self, folder: bytes) -> bool:
        """Whether a selected file can be below this folder."""
        return self._exclude is None or self._folder_verdict(folder)[0]

    def _judge_folder(self, folder: bytes) -> tuple[bool, bool]:
        """Whether no line excludes the folder, and whether a line includes all of it."""
        above, _, name = folder.rpartition(b"/")
        entered, included = self._folder_verdict(above) if above else (True, self._include is None)
        if not entered or _matches(self._exclude, name, folder, is_folder=True):
            return False, False
        return True, included or _matches(self._include, name, folder, is_folder=True)


def _lines(patterns: Sequence[str]) -> PatternList | None:
    if not patterns:
        return None
    from gofer.snapshot.patterns import PatternList  # slow to load, and few transfers use patterns

    return PatternList("\n".join(patterns).encode("utf-8", "surrogateescape"))


def _matches(patterns: PatternList | None, name: bytes, path: bytes, *, is_folder: bool) -> bool:
    return patterns is not None and bool(patterns.verdict(name, path, is_folder))
