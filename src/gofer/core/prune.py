"""Find and remove gofer's own files on a machine that no run needs.

Listing changes nothing. A removal first moves the files into the folder `gone`, so that nobody finds them
half removed, and deletes them there. If a removal is killed, the next one deletes what it left in `gone`.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from typing import Iterable, Iterator, List, NamedTuple, Optional, Set

from gofer.core import files, private_folder
from gofer.core.code.trees import open_folders
from gofer.core.sleep import pause

GONE = "gone"
COPY, UNSENT, AGENT, REMAINS = "folder copy", "unsent", "agent", "remains"
WORKING_COPY = "working copy"
# A working copy whose new files exceed the limit for kept files stays for this time.
_WORKING_COPY_S = 14 * 86400.0
PACKAGES = "packages"
_SETTLE_S = 0.05
_JOBS_AGENT = re.compile(rb"/agent/([^/\"\s]+)")


class KeptItem(NamedTuple):
    """Something that gofer keeps on the machine. `at` is when it was last used; `about` is more for people to
    read.
    """

    kind: str
    name: str
    size: int
    at: float
    about: str = ""


def size_of(path: str) -> int:
    """Bytes of all files below. Links are not followed; files that vanish in the meantime are not counted."""
    total = 0
    try:
        status = os.lstat(path)
        if not os.path.isdir(path) or os.path.islink(path):
            return status.st_size
        with os.scandir(path) as entries:
            for entry in entries:
                total += size_of(entry.path)
    except OSError:
        pass
    return total


def names_in(path: str) -> List[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def set_aside(root: str, path: str) -> Optional[str]:
    """Move `path` into the folder `gone` of `root`; its new path, or None when `path` no longer exists."""
    gone = os.path.join(root, GONE)
    private_folder.make_missing(gone)
    aside = os.path.join(gone, f"{os.path.basename(path)}.{os.urandom(4).hex()}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return None
    return aside


def delete(path: str) -> None:
    """Delete a file, link or folder. Idempotent. OSError when it cannot be removed."""
    import shutil  # slow to load, and callers that only list or touch do not need it

    try:
        if os.path.isdir(path) and not os.path.islink(path):
            try:
                shutil.rmtree(path)
            except PermissionError:
                open_folders(path)
                shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        if os.path.lexists(path):  # another process deletes in the same tree
            shutil.rmtree(path, ignore_errors=True)


def tidy(path: str) -> None:
    """Remove folders at and below `path` that hold no file."""
    for where, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(where)
        except OSError:
            pass  # the folder is not empty, or no longer exists


def remains(root: str) -> Iterator[KeptItem]:
    """What removals that were killed have left."""
    for name in names_in(os.path.join(root, GONE)):
        path = os.path.join(root, GONE, name)
        yield KeptItem(REMAINS, name, size_of(path), time_of(path), "left by an interrupted removal")


def remove_remains(root: str, name: str) -> bool:
    delete(os.path.join(root, GONE, os.path.basename(name)))
    return True


# -- copies of mapped folders: see gofer.node.folders.copy


def copies(queue_home: str, unused_since: float) -> Iterator[KeptItem]:
    """Copies that no run has used since `unused_since`. A copy in use may be listed: `remove_copy` checks
    that.
    """
    top = os.path.join(queue_home, "folders")
    for name in names_in(top):
        path = os.path.join(top, name)
        at = _last_copied(path)
        if at < unused_since:
            about = files.read_json(os.path.join(path, "about.json")) or {}
            yield KeptItem(
                COPY, name, size_of(path), at, f"{about.get('store', '?')}/{about.get('path', '?')}"
            )


def remove_copy(queue_home: str, name: str, unused_since: float) -> bool:
    """Remove one copy. Idempotent. False when a run uses the copy, or has used it since `unused_since`."""
    path = os.path.join(queue_home, "folders", os.path.basename(name))
    held: List[int] = []
    try:
        for lock in ("copying", "users"):
            held.append(_lock(os.path.join(path, lock)))
        if _last_copied(path) >= unused_since:
            return False
        aside = set_aside(queue_home, path)
    except (BlockingIOError, FileNotFoundError):
        return not os.path.lexists(path)
    finally:
        for fd in held:
            os.close(fd)
    if aside is not None:
        delete(aside)
    return True


def _last_copied(path: str) -> float:
    """When a run last used the copy. Every run first updates the copy, and writes this file when it does."""
    return max(time_of(os.path.join(path, "about.json")), 0.0) or time_of(path)


def _lock(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def time_of(path: str) -> float:
    """When the path was last modified; 0 when it is absent."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


# -- what runs could not send


def unsent(top: str) -> Iterator[KeptItem]:
    """All files that could not be sent: `<run>`, or `<run>.<attempt>.<node>…`. The caller decides what may
    go.
    """
    for name in names_in(top):
        path = os.path.join(top, name)
        yield KeptItem(UNSENT, name, size_of(path), time_of(path), run_of(name))


def run_of(name: str) -> str:
    return name.partition(".")[0]


# -- working copies that hold more than may be kept: `<run>.<attempt>.<node>`


def working_copies(top: str) -> Iterator[KeptItem]:
    """All kept working copies. `at` is when the copy was put there. The caller decides what may go."""
    for name in names_in(top):
        path = os.path.join(top, name)
        yield KeptItem(WORKING_COPY, name, size_of(path), time_of(path), run_of(name))


def is_old_copy(at: float, unused_since: float) -> bool:
    """Whether a working copy is older than two weeks, or older than `unused_since`."""
    return at < max(unused_since, time.time() - _WORKING_COPY_S)


def remove_working_copy(root: str, top: str, name: str) -> bool:
    """Remove one kept working copy. Idempotent. `root` has the folder `gone`. OSError when it cannot be
    removed.
    """
    aside = set_aside(root, os.path.join(top, os.path.basename(name)))
    if aside is not None:
        delete(aside)
    return True


# -- agents of other versions of gofer: <folder>/agent/<mark>


def agents(folder: str, own: str, unused_since: float) -> Iterator[KeptItem]:
    """Installed agents that nobody has used since `unused_since`, and that no run here needs."""
    top = os.path.join(folder, "agent")
    old = {name: time_of(os.path.join(top, name)) for name in names_in(top) if name != own}
    old = {name: at for name, at in old.items() if at < unused_since}
    if not old or _has_open_runs(folder):
        return
    needed = _needed(folder, old)
    for name, at in old.items():
        if name not in needed:
            yield KeptItem(AGENT, name, size_of(os.path.join(top, name)), at)


def remove_agent(folder: str, own: str, name: str, unused_since: float) -> bool:
    """Remove one installed agent. Idempotent. False when it is still needed. Callers of an agent first
    `touch` it.
    """
    path = os.path.join(folder, "agent", os.path.basename(name))
    if name == own or _has_open_runs(folder):
        return False
    aside = set_aside(folder, path)
    if aside is None:
        return True
    pause(_SETTLE_S)  # a caller that found the agent just before the move has touched it by now
    if time_of(aside) >= unused_since or _needed(folder, [name]):
        try:
            os.rename(aside, path)
        except OSError:
            delete(aside)  # another process has installed the agent again in the meantime
        return False
    delete(aside)
    return True


def touch(agent: str) -> bool:
    """Whether the agent is installed. If so, mark it as used now, so that `agents` does not list it."""
    try:
        os.utime(agent)
    except OSError:
        pass  # the agent belongs to another user, or is absent
    return os.path.isdir(agent)


def _needed(folder: str, names: Iterable[str]) -> Set[str]:
    """The agents that a Slurm job is going to start, or that a process on this machine was started from."""
    wanted = {os.fsencode(name): name for name in names}
    return {wanted[name] for name in {*_named_by_jobs(folder), *_named_by_processes(folder)} & set(wanted)}


def _named_by_jobs(folder: str) -> Iterator[bytes]:
    """The agents that the scripts of Slurm jobs start: see gofer.backends.slurm.plan."""
    jobs = os.path.join(folder, "slurm")
    for name in names_in(jobs):
        yield from _JOBS_AGENT.findall(_read(os.path.join(jobs, name, "job.sh")))


def _named_by_processes(folder: str) -> Iterator[bytes]:
    """Words of command lines that can name an agent. A supervisor has the path of its agent
    (gofer.queue.wake); a process at the end of an SSH connection has the bare name
    (gofer.transport.bundle).
    """
    own, top = str(os.getpid()), os.fsencode(os.path.join(os.path.realpath(folder), "agent", ""))
    for name in names_in("/proc"):
        if name.isdigit() and name != own:
            for word in _read(f"/proc/{name}/cmdline").split(b"\0"):
                if b"/" not in word:
                    yield word
                elif word.startswith(b"/") and os.path.realpath(word).startswith(top):
                    yield os.path.realpath(word)[len(top) :].partition(b"/")[0]


def _read(path: str) -> bytes:
    """The bytes of a file; empty when the file is gone or belongs to another user."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _has_open_runs(folder: str) -> bool:
    """Whether a queue below the folder has a run that has not ended. Such a run continues with the agent it
    started with.

    The machines that share a home folder have a queue each. A queue that cannot be read counts as having such
    a run.
    """
    homes = os.path.join(folder, "engine")
    return any(_is_open(os.path.join(homes, host, "queue.db")) for host in names_in(homes))


def _is_open(path: str) -> bool:
    if not os.path.exists(path):
        return False
    import sqlite3

    try:
        database = sqlite3.connect(path, timeout=10.0)
        try:
            query = "SELECT 1 FROM runs WHERE state IN ('queued', 'starting', 'running') LIMIT 1"
            return database.execute(query).fetchone() is not None
        finally:
            database.close()
    except sqlite3.Error:
        return True
