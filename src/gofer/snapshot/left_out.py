"""Finds what is left out of a snapshot: files that ignore rules exclude, and links that lead outside.

Files that nobody expects in a run are not named: caches, virtual environments, files of editors.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.code.junk import environment_marks
from gofer.core.secrets.secret_files import looks_like_secret
from gofer.snapshot.patterns import PatternList
from gofer.snapshot.rules import BUILT_IN, IgnoreReason
from gofer.snapshot.statcache import FIELDS, split_names, unpack_values
from gofer.snapshot.walk import extent_of

if TYPE_CHECKING:
    from gofer.snapshot.walk import WalkedFolder

# Limits, so that a report about much left-out data does not delay a submission.
MOST_ENTRIES = 20_000
MOST_S = 0.2

_SIZE, _MODE = 3, 4  # of the fields of a signature
_JUNK = PatternList(
    BUILT_IN
    + b"""\
.venv/
venv/
*.egg-info/
.eggs/
.tox/
.nox/
.cache/
.idea/
.vscode/
*.swp
*~
.coverage
htmlcov/
"""
)


class LeftOutEntry(NamedTuple):
    """A file or folder that an ignore rule leaves out; `path` is from the top of the code folder."""

    path: str
    is_folder: bool
    reason: IgnoreReason


class OutsideLink(NamedTuple):
    """A link that is sent and leads outside of the code folder.

    `is_own` says that it leads back into the folder by its full path, and so out of every copy.
    """

    path: str
    target: str
    is_own: bool = False


class LeftOutReport(NamedTuple):
    """What is left out. `is_whole` is false when a limit of the search was reached.

    `sent` counts the files that are sent, by the names at the top of the code folder. `secrets` are files
    that look like secrets and are sent because git tracks them.
    """

    entries: tuple[LeftOutEntry, ...]
    is_whole: bool
    links: tuple[OutsideLink, ...]
    secrets: tuple[str, ...]
    sent: dict[str, int]


class SnapshotSurvey(NamedTuple):
    """What would be sent, each file with its size, and what would be left out."""

    files: tuple[tuple[str, int], ...]
    left_out: LeftOutReport


def list_files(folders: Iterable[WalkedFolder]) -> Iterator[tuple[str, int]]:
    """The files and links of the walked folders, with their sizes."""
    for folder in folders:
        for name, size in zip(_files(folder), _values(folder)[_SIZE::FIELDS], strict=True):
            yield _join(folder.path, name), size


def find_left_out(root: str, folders: Sequence[WalkedFolder], tracked: Iterable[bytes]) -> LeftOutReport:
    """What is left out of the walked folders of `root`. Reads links, but no contents.

    `tracked` are files that git tracks, at least those that look like secrets.
    """
    found: list[LeftOutEntry] = []
    is_whole = True
    for entry in _left_out(root, folders):
        if len(found) == MOST_ENTRIES:
            is_whole = False
            break
        found.append(entry)
    sent: dict[str, int] = {}
    links: list[OutsideLink] = []
    for folder in folders:
        top = folder.path.partition("/")[0]
        sent[top] = sent.get(top, 0) + extent_of(folder)[0]
        links += _links(root, folder)
    return LeftOutReport(tuple(found), is_whole, tuple(links), tuple(_secrets(folders, tracked)), sent)


def _secrets(folders: Sequence[WalkedFolder], tracked: Iterable[bytes]) -> Iterator[str]:
    """The tracked files that look like secrets and are in the snapshot."""
    wanted = [path for path in sorted(map(os.fsdecode, tracked)) if looks_like_secret(path)]
    by_path = {folder.path: folder for folder in folders} if wanted else {}
    for path in wanted:
        above, _, name = path.rpartition("/")
        if above in by_path and name in _files(by_path[above]):
            yield path


def _left_out(root: str, folders: Sequence[WalkedFolder]) -> Iterator[LeftOutEntry]:
    for folder in folders:
        if folder.inside is None:
            continue
        above = os.fsencode(folder.path)
        for name, is_folder in folder.skipped.items():
            path, plain = _join(folder.path, name), os.fsencode(name)
            if _JUNK.verdict(plain, os.fsencode(path), is_folder):
                continue
            reason = folder.inside.reason(above, plain, is_folder)
            if reason and not (is_folder and _is_environment(os.path.join(root, path))):
                yield LeftOutEntry(path, is_folder, reason)


def _is_environment(folder: str) -> bool:
    """Whether it is a Python environment, which is useless on another machine and not expected there."""
    return any(map(os.path.lexists, environment_marks(folder)))


def _files(folder: WalkedFolder) -> list[str]:
    return split_names(folder.record.files) if folder.unchanged and folder.record else folder.files


def _values(folder: WalkedFolder) -> list[int]:
    if folder.unchanged and folder.record:
        return unpack_values(folder.record.signatures)
    return folder.values


def _links(root: str, folder: WalkedFolder) -> Iterator[OutsideLink]:
    """The links of a folder that lead outside of a copy of `root` to something that exists."""
    for name, mode in zip(_files(folder), _values(folder)[_MODE::FIELDS], strict=True):
        if not stat.S_ISLNK(mode):
            continue
        path = os.path.join(root, folder.path, name)
        try:
            target = os.readlink(path)
        except OSError:  # removed or replaced meanwhile
            continue
        led = os.path.normpath(os.path.join(os.path.dirname(path), target))
        is_own = led == root or led.startswith(root + "/")
        if (not is_own or os.path.isabs(target)) and os.path.exists(path):
            yield OutsideLink(_join(folder.path, name), target, is_own)


class Count(NamedTuple):
    """Files and bytes; `is_whole` is false when there may be more."""

    files: int = 0
    size: int = 0
    is_whole: bool = True


class LeftOutCounter:
    """Counts left-out files, in total at most MOST_ENTRIES entries and for MOST_S seconds."""

    def __init__(self) -> None:
        self._left = MOST_ENTRIES
        self._until = time.monotonic() + MOST_S

    @property
    def is_spent(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._until

    def count(self, paths: Sequence[str]) -> Count:
        """The files at and below these absolute paths; links are not followed."""
        files = size = 0
        is_whole = True
        stack = list(reversed(paths))
        while stack:
            if self.is_spent:
                return Count(files, size, False)
            self._left -= 1
            path = stack.pop()
            try:
                found = os.lstat(path)
                if stat.S_ISDIR(found.st_mode):
                    stack += [os.path.join(path, name) for name in os.listdir(path)]
                    continue
            except PermissionError:
                is_whole = False
                continue
            except OSError:  # removed
                continue
            files, size = files + 1, size + found.st_size
        return Count(files, size, is_whole)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
