"""Find out how a command changed its working copy, and reset the copy for the next command.

The comparison with the staged files uses what `lstat` says about each entry: inode, size, times, mode. It
takes one scan of the copy and reads no file.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from gofer.core.code import trees

# Inode, size, mtime and ctime in nanoseconds, mode. For a folder only the mode is compared.
Stamp = Tuple[int, int, int, int, int]
# The entries of a copy, by their paths in it.
Contents = Dict[str, Stamp]


class Changes(NamedTuple):
    """Paths in the copy, folders before their contents. `changed` are files and links whose content may have
    changed. `altered` are these, and all entries whose mode or times have changed.
    """

    new: List[str]
    changed: List[str]
    altered: List[str]
    deleted: List[str]


def scan(root: str, *, opens: bool = False) -> Contents:
    """All entries below `root`. Entries that vanish during the scan are left out. FileNotFoundError when
    `root` is absent.

    With `opens`, the owner gets permission to enter every folder.
    """
    found: Contents = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = _entries(os.path.join(root, folder), opens)
        except OSError:
            if not folder:
                raise
            continue
        prefix = folder + "/" if folder else ""
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            path = prefix + entry.name
            found[path] = stamp(status)
            if stat.S_ISDIR(status.st_mode):
                folders.append(path)
    return found


def _entries(path: str, opens: bool) -> List[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except PermissionError:
        if not opens:
            raise
    trees.open_folder(path)
    with os.scandir(path) as entries:
        return list(entries)


def stamp(status: os.stat_result) -> Stamp:
    """A value that distinguishes versions of an entry."""
    if stat.S_ISDIR(status.st_mode):
        return (0, 0, 0, 0, status.st_mode)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def compare(before: Contents, now: Contents) -> Changes:
    """How the copy changed. An entry whose type changed counts as deleted and as new."""
    new: List[str] = []
    changed: List[str] = []
    altered: List[str] = []
    deleted: List[str] = []
    for path, found in now.items():
        known = before.get(path)
        if known == found:
            continue
        if known is None:
            new.append(path)
        elif stat.S_IFMT(known[4]) != stat.S_IFMT(found[4]):
            deleted.append(path)
            new.append(path)
        else:
            altered.append(path)
            if known[:3] != found[:3]:
                changed.append(path)
    if len(now) - len(new) + len(deleted) < len(before):
        deleted += [path for path in before if path not in now]
    return Changes(new, changed, altered, deleted)


def put_back(root: str, pristine: str, changes: Changes, known: Contents) -> None:
    """Reset the copy at `root` to `known`, an earlier scan, with the files of `pristine`. Updates `known`.

    New entries may already be gone. OSError when the copy cannot be reset; it must not be used then. No
    process may be at work in the copy.
    """
    for path in reversed(changes.new):
        full_path = os.path.join(root, path)
        if os.path.lexists(full_path):
            trees.remove_tree(full_path)
    wanted = sorted({*changes.deleted, *changes.altered})
    folders = [path for path in wanted if stat.S_ISDIR(known[path][4])]
    for path in folders:
        os.makedirs(os.path.join(root, path), exist_ok=True)
        trees.open_folder(os.path.join(root, path))
    for path in wanted:
        if not stat.S_ISDIR(known[path][4]):
            trees.remove_tree(os.path.join(root, path))
            trees.copy_file(os.path.join(pristine, path), os.path.join(root, path))
            known[path] = stamp(os.lstat(os.path.join(root, path)))
    for path in reversed(folders):
        os.chmod(os.path.join(root, path), stat.S_IMODE(known[path][4]))


def read_code(code: str) -> Callable[[str], Optional[str]]:
    """A function that returns the text of a file of a working copy; None when the file cannot be read."""

    def read(path: str) -> Optional[str]:
        try:
            with open(os.path.join(code, path), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    return read
