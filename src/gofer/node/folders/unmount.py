"""Clean up what is left of mounts, so that nothing is ever deleted through a mount.

    <queue_home>/mounts/<request>/<name>/at       the mount point
    <queue_home>/mounts/<request>/<name>/cache    the cache of rclone: written files, and which were not sent
    <queue_home>/mounts/<request>/<name>/lock     locked by an agent while it lives and needs the mount

A mount point is removed only as an empty folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from typing import Optional

from gofer.core import files, private_folder

_UNMOUNTERS = ("fusermount3", "fusermount")
_PATIENCE_S = 10.0


def state_of(queue_home: str, request_id: str, name: str) -> str:
    """The folder with everything that belongs to one mount."""
    return os.path.join(queue_home, "mounts", request_id, name)


def clear(queue_home: str, request_id: str) -> None:
    """Unmount and remove the mounts of a request that no living agent holds. Idempotent.

    Files that were written there and not sent are moved to `<queue_home>/unsent`.
    """
    top = os.path.join(queue_home, "mounts", request_id)
    try:
        names = os.listdir(top)
    except FileNotFoundError:
        return
    for name in names:
        clear_one(os.path.join(top, name))
    _rmdir(top)


def clear_one(state: str) -> None:
    """Like `clear`, for one mount."""
    try:
        lock = os.open(os.path.join(state, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        detach(os.path.join(state, "at"))
        if count_unsent(state):
            top, name = os.path.split(state)
            mounts, request_id = os.path.split(top)
            keep_unsent(state, os.path.join(os.path.dirname(mounts), "unsent", f"{request_id}.{name}"))
        remove(state)
    except OSError:
        pass  # an agent holds the mount, or its cache cannot be moved, so it stays
    finally:
        os.close(lock)


def count_unsent(state: str) -> int:
    """How many written files are not in the store, according to the metadata in rclone's cache."""
    found = 0
    for where, _, names in os.walk(os.path.join(state, "cache", "vfsMeta")):
        notes = (files.read_json(os.path.join(where, name)) for name in names)
        found += sum(note is None or bool(note.get("Dirty")) for note in notes)
    return found


def keep_unsent(state: str, where: str) -> None:
    """Move the cache to `where`, a place where gofer never removes it."""
    private_folder.make_missing(os.path.dirname(where))
    os.rename(os.path.join(state, "cache"), where)


def is_mounted(path: str) -> bool:
    """Whether something is mounted at `path`. Works even when the program behind the mount is dead."""
    wanted = os.fsencode(os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path))
    with open("/proc/self/mountinfo", "rb") as file:
        return any(_unescaped(line.split()[4]) == wanted for line in file)


def _unescaped(field: bytes) -> bytes:
    return re.sub(rb"\\(\d{3})", lambda match: bytes([int(match.group(1), 8)]), field)


def detach(at: str) -> None:
    """Unmount: first the normal way, then detached from processes that still use it."""
    program = unmounter(os.environ.get("PATH")) or _UNMOUNTERS[0]
    for words in ([program, "-u"], [program, "-u", "-z"], ["umount", "-l"]):
        if not is_mounted(at):
            return
        try:
            subprocess.run(
                [*words, at],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue


def unmounter(path: Optional[str]) -> Optional[str]:
    """The program that unmounts without root rights; None when there is none on this PATH."""
    found = (shutil.which(name, path=path) for name in _UNMOUNTERS)
    return next((one for one in found if one), None)


def remove(state: str) -> None:
    """Remove the mount point, which must be empty by now. Only when that succeeded, remove the rest of the
    folder.
    """
    at = os.path.join(state, "at")
    _rmdir(at)
    if not os.path.lexists(at):
        shutil.rmtree(state, ignore_errors=True)
        _rmdir(os.path.dirname(state))


def _rmdir(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        pass  # absent, not empty, or still mounted: then it must not be removed
