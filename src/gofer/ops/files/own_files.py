"""Files that gofer writes into a folder of the person's, which other users may be able to write, too.

In a folder such as /tmp another user can put a link where gofer is about to write, and so have a file of the
person's overwritten. Folders behind links of other users are refused; a file is never opened through a link.
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

    The two folders above are looked at as well: logs go to `assets/<id>/attempts`.
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
    """The file, made when absent, to be read and added to. A link, a pipe or a file with a second name is
    removed first, so that nothing but the file of this name is written.
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
