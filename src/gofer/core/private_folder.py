"""Folders that belong to one user: the queue of a machine, private values of runs, the ledger.

Whoever can write such a folder, or rename it, can have code run as its owner. So a folder is made 0700
whatever the umask is, and one that belongs to another user is refused.
"""

from __future__ import annotations

import os
import stat


class ForeignFolder(PermissionError):
    """The folder, or one that it lies in, belongs to another user or is not a folder."""


def make(path: str, *, owned: int = 1) -> None:
    """Make the folder and its missing parents, 0700. Idempotent. ForeignFolder when it is not the user's own.

    Of the path, the last `owned` names must belong to the user. The folder itself loses all rights of others;
    the folders above it lose the right to write, with which others could put another folder in its place.
    """
    _make_all(path)
    _close(path, others_may=0o000)
    for _ in range(owned - 1):
        path = os.path.dirname(path)
        _close(path, others_may=0o055)


def _make_all(path: str) -> None:
    """As os.makedirs, which gives the mode to the last folder only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_all(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass  # another process made it at the same moment


def _close(path: str, *, others_may: int) -> None:
    found = os.stat(path)
    user = os.getuid()
    if not stat.S_ISDIR(found.st_mode):
        raise ForeignFolder(f"{path} is not a folder")
    if found.st_uid != user or os.lstat(path).st_uid not in (user, 0):
        raise ForeignFolder(
            f"{path} belongs to user {found.st_uid} and not to user {user}:"
            " set `GOFER_HOME` to a folder of your own"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 & ~others_may:
        os.chmod(path, mode & (0o7700 | others_may))
