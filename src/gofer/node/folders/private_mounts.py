"""Make mounts that only this process and its commands see. They vanish with the last of these processes.

Only root can do this; without the rights (in a container, or as another user) every function returns False.
"""

from __future__ import annotations

import ctypes
import os
from typing import List, Optional

_NEW_MOUNTS = 0x00020000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _FOLLOWER = 1, 32, 4096, 16384, 1 << 19
_DETACH = 2


class PrivateMounts:
    """The private mounts of one share of a run. Main thread only. Call `release` last, even after a
    failure.
    """

    def __init__(self) -> None:
        self._mounted: List[str] = []

    def read_only(self, folder: str) -> bool:
        """Make the folder read-only in place. False when the system refuses."""
        if not _enter() or not _mount(folder, folder, None, _BIND, None):
            return False
        self._mounted.append(folder)
        if _mount(folder, folder, None, _REMOUNT | _BIND | _READ_ONLY, None):
            return True
        self._unmount(folder)
        return False

    def read_only_view(self, folder: str, at: str) -> bool:
        """Show the folder read-only at `at`, which must exist and be empty. File systems that are mounted
        below the folder are shown too, and stay as they are. False when the system refuses.
        """
        if not _enter() or not _mount(folder, at, None, _BIND | _RECURSIVE, None):
            return False
        self._mounted.append(at)
        if _mount(at, at, None, _REMOUNT | _BIND | _READ_ONLY, None):
            return True
        self._unmount(at)
        return False

    def copy_on_write(self, folder: str, at: str, changes: str) -> bool:
        """Show the folder at `at`, which must exist and be empty. Writes go to `changes`, which is created,
        and never to `folder`. False when the system refuses.
        """
        upper, work = os.path.join(changes, "files"), os.path.join(changes, "work")
        if any(letter in path for path in (folder, changes) for letter in ',:\\"') or not _enter():
            return False
        for made in (upper, work):
            os.makedirs(made, mode=0o755, exist_ok=True)
        options = f"lowerdir={folder},upperdir={upper},workdir={work}"
        if not _mount("overlay", at, "overlay", 0, options):
            return False
        self._mounted.append(at)
        return True

    def release(self) -> None:
        """Unmount everything. Idempotent."""
        while self._mounted:
            self._unmount(self._mounted[-1])

    def _unmount(self, path: str) -> None:
        self._mounted.remove(path)
        _library().umount2(os.fsencode(path), _DETACH)


_own: List[bool] = []


def _enter() -> bool:
    """Give this process a mount namespace of its own, once. Mounts that others make later still appear in
    it.
    """
    if not _own:
        is_done = os.geteuid() == 0 and _library().unshare(_NEW_MOUNTS) == 0
        _own.append(is_done and _mount("none", "/", None, _RECURSIVE | _FOLLOWER, None))
    return _own[0]


def join(pid: int) -> bool:
    """Enter the mount namespace of another process. False when the system refuses."""
    try:
        fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.geteuid() == 0 and bool(_library().setns(fd, _NEW_MOUNTS) == 0)
    finally:
        os.close(fd)


def _mount(source: str, at: str, kind: Optional[str], flags: int, options: Optional[str]) -> bool:
    words = [None if word is None else os.fsencode(word) for word in (source, at, kind, options)]
    return bool(_library().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) == 0)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
