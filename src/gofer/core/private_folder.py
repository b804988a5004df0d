"""Folders that belong to one user: the queue of a machine, private values of runs, the ledger.

A user with the right to write or rename such a folder could run code as its owner. So gofer makes these
folders with mode 0700, whatever the umask is, and refuses a folder that belongs to another user.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Iterable, Union


class ForeignFolder(PermissionError):
    """The folder, or one that it lies in, belongs to another user or is not a folder."""


def make(path: str, *, owned: int = 1) -> None:
    """Make the folder and its missing parents with mode 0700. Idempotent. ForeignFolder when it belongs to
    others.

    The last `owned` folders of the path must belong to the user. Others lose all rights on the folder itself.
    On the folders above it they lose the right to write, with which they could replace the folder.
    """
    with suppress(FileExistsError):  # `_close` below refuses a path that is a file, with a clear message
        make_missing(path)
    _close(path, others_may=0o000)
    for _ in range(owned - 1):
        path = os.path.dirname(path)
        _close(path, others_may=0o055)


def make_missing(path: Union[str, os.PathLike[str]]) -> None:
    """Make the folder and its missing parents with mode 0700, whatever the umask is. Existing folders stay as
    they are.

    Idempotent. os.makedirs would give the mode to the last folder only, and the mode of the umask to the
    others.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        above = os.path.dirname(path)
        if not above or above == os.fspath(path):
            raise
        make_missing(above)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise  # else another process made the folder at the same moment


def close_to_writers(path: Union[str, os.PathLike[str]]) -> None:
    """Take the right to write in the folder from other users. ForeignFolder when the folder belongs to
    another user. Nothing happens when the folder is absent.
    """
    try:
        _close(os.fspath(path), others_may=0o055)
    except FileNotFoundError:
        return


def _close(path: str, *, others_may: int) -> None:
    found = os.stat(path)
    user = os.getuid()
    if not stat.S_ISDIR(found.st_mode):
        raise ForeignFolder(f"{path} is not a folder")
    mode = stat.S_IMODE(found.st_mode)
    if others_may and found.st_uid == 0 and (mode & stat.S_ISVTX or not mode & 0o022):
        return  # one of the system's, such as /scratch, in which nobody can rename what is another user's
    if found.st_uid != user or os.lstat(path).st_uid not in (user, 0):
        raise ForeignFolder(
            f"{path} belongs to user {found.st_uid} and not to user {user}:"
            " set `GOFER_HOME` to a folder of your own"
        )
    if mode & 0o077 & ~others_may:
        os.chmod(path, mode & (0o7700 | others_may))


def own_folder(places: Iterable[str]) -> str:
    """Make `gofer-<uid>` in the first of the places that is a folder, else in /tmp; its path. PermissionError
    when the name is taken by a link or by another user.
    """
    chosen = next((one for one in places if one and "$" not in one and os.path.isdir(one)), "/tmp")
    path = os.path.join(chosen, f"gofer-{os.getuid()}")
    if os.path.islink(path):
        raise ForeignFolder(f"{path} is a link and not this user's own folder")
    make(path)
    return path
