"""The working copy of a run: what a command made of it, and how it is put back for the next one.

A copy is compared with what staging wrote by what `lstat` says of each entry: inode, size, times, mode. That
takes one look through the copy and reads no file.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, List, NamedTuple, Tuple

from gofer.core import trees

# Inode, size, mtime and ctime in nanoseconds, mode. Of a folder only the mode is compared.
Stamp = Tuple[int, int, int, int, int]
# What is in a copy, by its path below the copy.
Contents = Dict[str, Stamp]


class Changes(NamedTuple):
    """Paths below the copy, folders before what is in them. `changed` are files and links whose content may
    be another; `altered` are those, and all whose mode or times are others.
    """

    new: List[str]
    changed: List[str]
    altered: List[str]
    deleted: List[str]


def scan(root: str, *, opens: bool = False) -> Contents:
    """All below `root`. FileNotFoundError without a folder `root`; what vanishes meanwhile is left out.

    With `opens`, a folder that cannot be entered is made so that it can.
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
    """What tells a version of an entry from another."""
    if stat.S_ISDIR(status.st_mode):
        return (0, 0, 0, 0, status.st_mode)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def compare(before: Contents, now: Contents) -> Changes:
    """What became of the copy. An entry that is of another type now was deleted and is new."""
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
    """Make the copy at `root` what it was when `known` was scanned, from the same files at `pristine`.

    `known` is brought up to date. What is gone already of what was new does no harm. OSError when the copy
    cannot be put back; it is of no use then. No process may be at work in it.
    """
    for path in reversed(changes.new):
        whole = os.path.join(root, path)
        if os.path.lexists(whole):
            trees.remove_tree(whole)
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
