"""Walks a local folder in the order of its paths' bytes, and selects files by patterns as in a `.gitignore`.
Reads no contents.

Holds the names of one folder at a time in memory, and fewer for a folder with very many names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gofer.snapshot.patterns import PatternList
from gofer.transfer.entries import FileEntry
from gofer.transfer.spool import in_order

if TYPE_CHECKING:
    from gofer.snapshot.patterns import PatternList

# The beginning of the temporary names of unfinished downloads.
PART_PREFIX = b".gofer-part-"

_ODD = {
    stat.S_IFSOCK: "is a socket",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFBLK: "is a device",
    stat.S_IFCHR: "is a device",
}
_EXECUTABLE = stat.S_IXUSR

NoteFile = Callable[[str, str], None]


class FileSelection:
    """A file is selected when `include` is empty or names the file or a folder above it, and `exclude` names
    neither.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _lines(include)
        self._exclude = _lines(exclude)
        # Files come folder by folder, so the verdict on a folder is used many times in a row.
        self._folder_verdict = lru_cache(maxsize=1024)(self._judge_folder)

    def selects(self, path: bytes) -> bool:
        """Whether the file is selected. An empty path, which is an end that is itself a file, always is."""
        if not path or (self._include is None and self._exclude is None):
            return True
        folder, _, name = path.rpartition(b"/")
        entered, included = self._folder_verdict(folder) if folder else (True, self._include is None)
        if not entered or _matches(self._exclude, name, path, is_folder=False):
            return False
        return included or _matches(self._include, name, path, is_folder=False)

    def may_contain(self, folder: bytes) -> bool:
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
    return PatternList("\n".join(patterns).encode("utf-8", "surrogateescape"))


def _matches(patterns: PatternList | None, name: bytes, path: bytes, *, is_folder: bool) -> bool:
    return patterns is not None and bool(patterns.verdict(name, path, is_folder))


class Walk(NamedTuple):
    """How to walk the folder `root`.

    `note` is called with files and folders that are left out, and why. With `follow`, the walk enters folders
    behind links too, unless a folder would contain itself; links to files always count as files. `part` is
    called with unfinished downloads, which are never entries.
    """

    root: bytes
    selection: FileSelection
    note: NoteFile
    follow: bool
    part: Callable[[str], None] = lambda path: None

    def entries(self) -> Iterator[FileEntry]:
        """The selected files. OSError when `root` itself cannot be read."""
        levels = [self._enter(b"", ())]
        while levels:
            level = levels[-1]
            for name in level.names:
                path = level.prefix + name
                if name.endswith(b"/"):
                    inner = self._try_to_enter(path[:-1], level.above)
                    if inner:
                        levels.append(inner)
                        break
                elif entry := self._file(name, path):
                    yield entry
            else:
                levels.pop()

    def _enter(self, folder: bytes, above: tuple[tuple[int, int], ...]) -> _Level:
        where = os.path.join(self.root, folder)
        seen = os.stat(where)
        here = (seen.st_dev, seen.st_ino)
        # Device and inode, because a link can lead to the same folder under any name.
        if here in above:
            raise _Loop
        names = in_order(self._names(where))
        return _Level(names, folder + b"/" if folder else b"", (*above, here))

    def _try_to_enter(self, folder: bytes, above: tuple[tuple[int, int], ...]) -> _Level | None:
        try:
            return self._enter(folder, above) if self.selection.may_contain(folder) else None
        except _Loop:
            self.note(os.fsdecode(folder), "is a link to a folder that contains it")
        except OSError as error:
            self.note(os.fsdecode(folder), _reason(error))
        return None

    def _names(self, where: bytes) -> Iterator[bytes]:
        """The names in a folder. Folders get a slash, because that is how their paths sort."""
        with os.scandir(where) as entries:
            for entry in entries:
                if not _is_folder(entry):
                    yield entry.name
                elif self.follow or not entry.is_symlink():
                    yield entry.name + b"/"

    def _file(self, name: bytes, path: bytes) -> FileEntry | None:
        if name.startswith(PART_PREFIX):
            self.part(os.fsdecode(path))
            return None
        if not self.selection.selects(path):
            return None
        where = os.path.join(self.root, path)
        try:
            found = os.stat(where)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError) and os.path.islink(where)
            self.note(os.fsdecode(path), "is a link to nothing" if gone else _reason(error))
            return None
        if not stat.S_ISREG(found.st_mode):
            self.note(os.fsdecode(path), _ODD.get(stat.S_IFMT(found.st_mode), "became a folder"))
            return None
        return describe(os.fsdecode(path), found)


class _Level(NamedTuple):
    names: Iterator[bytes]
    prefix: bytes
    above: tuple[tuple[int, int], ...]


class _Loop(Exception):
    """A folder contains itself."""


def describe(path: str, found: os.stat_result) -> FileEntry:
    """The entry of a file, from its status."""
    return FileEntry(path, found.st_size, found.st_mtime_ns, executable=bool(found.st_mode & _EXECUTABLE))


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "was removed meanwhile"
    return f"cannot be read: {(error.strerror or str(error)).lower()}"
