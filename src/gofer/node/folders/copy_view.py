"""Give one run its own view of a copied folder that all runs on this machine share, as cheaply as possible.

The view has folders of its own, and own copies of small files and of files that the file system can clone. A
large file that cannot be cloned is a hard link to the shared file, which is read-only.
"""

from __future__ import annotations

import fcntl
import os
import shutil

_SMALL_BYTES = 1 << 20
_CLONE = 0x40049409  # FICLONE of linux/fs.h


def make_view(tree: str, view: str) -> None:
    """Make `view`, which must not exist, a view of the folder `tree`. OSError when that fails."""
    for where, folders, names in os.walk(tree):
        own = os.path.normpath(os.path.join(view, os.path.relpath(where, tree)))
        os.makedirs(own, mode=0o755)
        for name in names + [one for one in folders if os.path.islink(os.path.join(where, one))]:
            _give(os.path.join(where, name), os.path.join(own, name))


def _give(source: str, path: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), path)
        return
    status = os.stat(source)
    if status.st_size <= _SMALL_BYTES:
        shutil.copyfile(source, path)
    elif not _clone(source, path):
        _link(source, path)
        return
    os.chmod(path, 0o755 if status.st_mode & 0o100 else 0o644)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _clone(source: str, path: str) -> bool:
    """Clone a file: both share their blocks until one of them is written. False when the file system cannot
    do this.
    """
    with open(source, "rb") as read, open(path, "wb") as write:
        try:
            fcntl.ioctl(write.fileno(), _CLONE, read.fileno())
            return True
        except OSError:
            pass
    os.unlink(path)
    return False


def _link(source: str, path: str) -> None:
    try:
        os.link(source, path)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, path)
