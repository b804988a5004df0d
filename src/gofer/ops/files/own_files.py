"""Safely write files into a person's folder that other users may be able to write too.

In a folder such as /tmp, another user can place a link where gofer is about to write, and so make gofer
overwrite a file of the person. These functions refuse folders behind links of other users, and never open a
file through a link.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from gofer.errors import StoreError

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def make_parent(path: Path, folder: Path) -> None:
    """Make the folders from `folder` down to the file; StoreError for a link that belongs to another user,
    and for a folder of another user in one that everybody can write: its owner could replace what is in it.

    The two folders above `folder` are checked as well, since logs go to `assets/<id>/attempts`.
    """
    inner = [one for one in path.parents if one == folder or folder in one.parents]
    for one in reversed([*inner, *list(folder.parents)[:2]]):
        if one.is_symlink() and one.lstat().st_uid not in (os.getuid(), 0):
            raise StoreError(
                f"`{one}` is a link that belongs to another user", hint="remove it, or work in another folder"
            )
        one.mkdir(parents=True, exist_ok=True)
        if one.stat().st_uid not in (os.getuid(), 0) and one.parent.stat().st_mode & stat.S_IWOTH:
            raise StoreError(
                f"`{one}` belongs to another user, in a folder that everybody can write",
                hint="work in another folder",
            )


def open_to_extend(path: Path) -> BinaryIO:
    """Open a file for reading and appending; it is created if absent. A link, a pipe or a file with hard
    links is removed first, so that no other file can be changed.
    """
    try:
        descriptor = os.open(path, _OPEN, 0o666)
    except OSError:
        if not path.is_symlink():
            raise
        path.unlink()
        descriptor = os.open(path, _OPEN | os.O_EXCL, 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        path.unlink()
        descriptor = os.open(path, _OPEN | os.O_EXCL, 0o666)
    return os.fdopen(descriptor, "r+b")
