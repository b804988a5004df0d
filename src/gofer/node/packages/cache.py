"""The folder on a node that caches built environments, for all runs of one user.

    <cache>/<hash>/building        locked by the run that builds, and by the tools that it started
    <cache>/<hash>/used            its time is that of the last use
    <cache>/<hash>/<n>/env         the environment; its scripts contain this path
    <cache>/<hash>/<n>/built.json  written last: without it, the environment is incomplete
    <cache>/<hash>/<n>/users       locked by every run that uses the environment
    <cache>/tools/                 programs that the node lacks

A changed environment is not repaired: a new one is built under the next number, and runs keep the one they
use.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from gofer.core import files, private_folder, prune
from gofer.core.json_text import parse_count

FOLDER = "packages"
ENVIRONMENT = "env"
_BUILDING, _USED, _USERS, _BUILT = "building", "used", "users", "built.json"
# Folders of the cache with programs and interpreters for all environments.
_NO_HASH = ("tools", "python")


def folder_in(root: str) -> str:
    """The cache in one of gofer's folders on a machine."""
    return os.path.join(root, FOLDER)


class CachedEnvironment:
    """The environments of one hash. Any number of processes may use one; an object is for one thread."""

    def __init__(self, cache: str, name: str) -> None:
        self.path = os.path.join(cache, name)
        self.name = name

    def lock(self, *, wait: bool) -> Optional[int]:
        """Take the build lock: a descriptor that child processes may inherit; None when another process
        builds.

        With `wait`, blocks until the lock is free. OSError when the folder cannot be written.
        """
        while True:
            private_folder.make_missing(self.path)
            path = os.path.join(self.path, _BUILDING)
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # `prune` has just removed the folder
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if os.path.exists(path) and os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
            except BlockingIOError:
                os.close(fd)
                return None
            except FileNotFoundError:
                pass
            os.close(fd)  # the lock belongs to a folder that `prune` removed

    def numbers(self) -> List[int]:
        return sorted(int(name) for name in prune.names_in(self.path) if parse_count(name) is not None)

    def place(self, number: int) -> str:
        return os.path.join(self.path, str(number))

    def facts(self, number: int) -> Optional[Dict[str, Any]]:
        """The facts that were written when the environment was complete; None for an incomplete
        environment.
        """
        return files.read_json(os.path.join(self.place(number), _BUILT))

    def usable(self) -> Tuple[Optional[int], Optional[str]]:
        """(the number of the newest complete environment, None), or (None, why that environment cannot be
        used).

        Both are None when no environment is complete. Changes nothing and needs no lock.
        """
        for number in reversed(self.numbers()):
            facts = self.facts(number)
            if facts is None:
                continue
            return (None, why) if (why := changed(self.place(number), facts)) else (number, None)
        return None, None

    def begin(self) -> str:
        """Make the folder of a new environment; its path. The caller must hold the build lock. Incomplete and
        unused environments are removed.
        """
        for number in self.numbers():
            if self.facts(number) is None or self._is_unused(number):
                prune.delete(self.place(number))
        place = self.place(max(self.numbers(), default=0) + 1)
        os.makedirs(place, mode=0o700)
        return place

    def _is_unused(self, number: int) -> bool:
        try:
            os.close(files.lock(os.path.join(self.place(number), _USERS), fcntl.LOCK_EX | fcntl.LOCK_NB))
        except OSError:
            return False
        return True

    def hold(self, number: int) -> int:
        """Keep an environment from being removed until the returned descriptor is closed, and record its use.

        FileNotFoundError when the environment was removed in the meantime.
        """
        fd = files.lock(os.path.join(self.place(number), _USERS), fcntl.LOCK_SH)
        if self.facts(number) is None:
            os.close(fd)
            raise FileNotFoundError(self.place(number))
        self.touch()
        return fd

    def touch(self) -> None:
        files.write_whole(os.path.join(self.path, _USED), b"")


def complete(place: str, facts: Dict[str, Any]) -> None:
    """Make the environment read-only and mark it as complete."""
    protect(place)
    known = {**facts, "at": time.time(), "signature": signature(place), "digest": digest(place)}
    files.write_whole(os.path.join(place, _BUILT), files.encode(known), durable=True)


def protect(place: str) -> None:
    """Make everything in the environment read-only. Links are not followed."""
    for where, _, names in os.walk(os.path.join(place, ENVIRONMENT)):
        for path in [where, *(os.path.join(where, name) for name in names)]:
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & ~0o222)


def changed(place: str, facts: Dict[str, Any]) -> Optional[str]:
    """Why a complete environment cannot be used; None when it can.

    Root can write read-only files, so for root every file is compared. For other users only what an installer
    changes is compared.
    """
    env = os.path.join(place, ENVIRONMENT)
    python = os.path.join(env, "bin", "python")
    if not os.path.exists(python):
        return "its Python is gone"
    if signature(place) != facts.get("signature"):
        return "packages were installed into it or removed from it"
    if os.geteuid() == 0 and digest(place) != facts.get("digest"):
        return f"files in it were changed{_newest_change(place, facts)}"
    return None


def _newest_change(place: str, facts: Dict[str, Any]) -> str:
    """The file that was changed last, in brackets; empty when no file is newer than the environment."""
    found = []
    for where, _, names in os.walk(os.path.join(place, ENVIRONMENT)):
        paths = (os.path.join(where, name) for name in names if not name.endswith(".pyc"))
        found += [(prune.time_of(path), path) for path in paths]
    at, path = max(found, default=(0.0, ""))
    return f" (`{os.path.relpath(path, place)}`)" if at > float(facts.get("at", at)) else ""


def signature(place: str) -> str:
    """A hash over the names in the folders that installers write to, and over their lists of installed
    files.
    """
    found: List[str] = []
    env = os.path.join(place, ENVIRONMENT)
    for folder in [os.path.join(env, "bin"), *_site_packages(env)]:
        for name in prune.names_in(folder):
            if name == "__pycache__":
                continue
            found.append(f"{folder}/{name}")
            if name.endswith(".dist-info"):
                found.append(_stamp(os.path.join(folder, name, "RECORD")))
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()


def digest(place: str) -> str:
    """A hash over path, size and time of every file, except compiled modules, which Python writes itself."""
    hashed = hashlib.sha256()
    for where, folders, names in os.walk(os.path.join(place, ENVIRONMENT)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted([*names, *folders]):
            path = os.path.join(where, name)
            words = f"{path} {'' if name in folders else _stamp(path)}\n"
            hashed.update(words.encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()


def _stamp(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return "-"
    return f"{status.st_size} {status.st_mtime_ns}"


def _site_packages(env: str) -> Iterator[str]:
    for name in prune.names_in(os.path.join(env, "lib")):
        if name.startswith("python"):
            yield os.path.join(env, "lib", name, "site-packages")


# -- for `gofer prune`


def unused(cache: str, unused_since: float) -> Iterator[prune.KeptItem]:
    """Environments that no run has used since `unused_since`."""
    for name in prune.names_in(cache):
        path = os.path.join(cache, name)
        at = _last_used(path)
        if name not in _NO_HASH and os.path.isdir(path) and at < unused_since:
            yield prune.KeptItem(prune.PACKAGES, name, prune.size_of(path), at, _list_of(cache, name))


def remove_unused(root: str, cache: str, name: str, unused_since: float) -> bool:
    """Remove the environments of one hash. False when a run uses or builds one, or has used one since
    `unused_since`.

    They are first moved to the folder `gone` of `root`: see gofer.core.prune.
    """
    path = os.path.join(cache, os.path.basename(name))
    if not os.path.isdir(path) or name in _NO_HASH:
        return not os.path.isdir(path)
    entry = CachedEnvironment(cache, os.path.basename(name))
    lock = entry.lock(wait=False)
    if lock is None:
        return False
    try:
        if _last_used(path) >= unused_since or not all(entry._is_unused(one) for one in entry.numbers()):
            return False
        aside = prune.set_aside(root, path)
    finally:
        os.close(lock)
    if aside is not None:
        prune.delete(aside)
    return True


def _last_used(path: str) -> float:
    return prune.time_of(os.path.join(path, _USED)) or prune.time_of(path)


def _list_of(cache: str, name: str) -> str:
    entry = CachedEnvironment(cache, name)
    found = [entry.facts(number) for number in entry.numbers()]
    return str(next((one.get("file") for one in reversed(found) if one), "incomplete"))
