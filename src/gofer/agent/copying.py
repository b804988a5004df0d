"""Brings a folder of a store to this machine, once for all runs: only what is missing or has changed.

    <copy>/tree/       the files
    <copy>/partial/    files on their way
    <copy>/copying     locked by whoever copies
    <copy>/users       locked by whoever reads: see `hold`

A file's time says which version of the object it is (`remote_folder.stamp_ns`), so nothing else need be
kept, and a copy that was cut off goes on where it was.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import threading
from typing import Any, Iterator, Mapping, Set

from gofer.agent import files
from gofer.agent.abreast import Tally, each
from gofer.agent.chore import ChoreFailed, Say
from gofer.agent.objects.facts import ObjectInfo, ObjectsError
from gofer.agent.remote_folder import RemoteFolder, explain, is_executable, is_gone, is_marker, stamp_ns

AT_ONCE = 16
_TRIES = 3


class _Differs(Exception):
    """What came is not what the listing said."""


def place_of(engine: str, store: str, path: str) -> str:
    """Where the copy of a path in a store is kept."""
    name = hashlib.sha256(f"{store}\n{path}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return os.path.join(engine, "folders", name)


def tree_of(copy: str) -> str:
    return os.path.join(copy, "tree")


def hold(copy: str) -> int:
    """Keep the files from being removed until the descriptor is closed. Blocks for moments at most."""
    return _lock(os.path.join(copy, "users"), fcntl.LOCK_SH)


def copy(spec: Mapping[str, Any], copy: str, facts: Mapping[str, str], say: Say) -> None:
    """Make the copy like the folder. Says how far it is, and that it waits while somebody else copies.

    `facts` are kept beside it, for people. Files that the store has no more are removed unless a run reads
    here. ChoreFailed, ObjectsError or OSError; what has arrived by then is there for the next try.
    """
    with _Copying(copy, say):
        files.write_whole(os.path.join(copy, "about.json"), files.encode(dict(facts)))
        work = _Copy(RemoteFolder(spec), copy, Tally(say))
        each(work.missing(), work.fetch, at_once=AT_ONCE)
        work.remove_rest()
        work.tally.tell()


class _Copying:
    """The right to copy, and the folders for it; whoever is second waits, and says so."""

    def __init__(self, copy: str, say: Say) -> None:
        self._copy = copy
        self._path = os.path.join(copy, "copying")
        self._say = say
        self._fd = -1

    def __enter__(self) -> None:
        for _ in range(_TRIES):
            for folder in (tree_of(self._copy), os.path.join(self._copy, "partial")):
                os.makedirs(folder, mode=0o700, exist_ok=True)
            try:
                self._fd = self._take()
            except FileNotFoundError:
                continue  # an old copy is being removed: see gofer.agent.pruning
            if self._is_there():
                return
            os.close(self._fd)
        raise ChoreFailed("its copy here is removed again and again")

    def _is_there(self) -> bool:
        """Whoever had the lock may have removed the copy with it."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _take(self) -> int:
        try:
            return _lock(self._path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._say({"waiting": True})
            return _lock(self._path, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class _Copy:
    """One pass over the folder, by the one process that may."""

    def __init__(self, remote: RemoteFolder, copy: str, tally: Tally) -> None:
        self._remote = remote
        self._copy = copy
        self._tree = tree_of(copy)
        self._partial = os.path.join(copy, "partial")
        # Hashes of names, since there may be millions.
        self._seen: Set[int] = set()
        self._made: Set[str] = set()
        self._making = threading.Lock()
        self.tally = tally
        for name in os.listdir(self._partial):  # of copies that were killed
            os.unlink(os.path.join(self._partial, name))

    def missing(self) -> Iterator[ObjectInfo]:
        for info in self._remote.list():
            if is_marker(info):
                os.makedirs(self._path(info.key.rstrip("/")), exist_ok=True)
                self._seen.add(hash(info.key.rstrip("/")))
                continue
            self._seen.add(hash(info.key))
            if not self._has(info):
                self.tally.found(info.size)
                yield info

    def _path(self, name: str) -> str:
        if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
            raise ChoreFailed(f"no file can be called {name!r}, as an object of the store is")
        return os.path.join(self._tree, name)

    def _has(self, info: ObjectInfo) -> bool:
        try:
            status = os.lstat(self._path(info.key))
        except (FileNotFoundError, NotADirectoryError):
            return False
        is_same = (status.st_size, status.st_mtime_ns) == (info.size, stamp_ns(info))
        return stat.S_ISREG(status.st_mode) and is_same

    def fetch(self, info: ObjectInfo) -> None:
        """In any thread. An object that is removed meanwhile is no error."""
        try:
            self._fetch(info)
        except (ObjectsError, OSError) as error:
            if not is_gone(error):
                raise explain(info.key, error) from error

    def _fetch(self, info: ObjectInfo) -> None:
        temporary = os.path.join(self._partial, str(threading.get_ident()))
        for _ in range(_TRIES):
            try:
                self._write(info, temporary)
            except (_Differs, ObjectsError) as error:
                newer = self._remote.head(info.key)
                if newer is None:
                    return
                if isinstance(error, ObjectsError) and _version(newer) == _version(info):
                    raise
                info = newer
                continue
            os.chmod(temporary, 0o755 if is_executable(info) else 0o644)
            os.utime(temporary, ns=(stamp_ns(info), stamp_ns(info)))
            self._put_in_place(temporary, info.key)
            self.tally.moved(0, files=1)
            return
        raise ChoreFailed(f"`{info.key}` is another each time it is read")

    def _write(self, info: ObjectInfo, temporary: str) -> None:
        size, hashed = 0, hashlib.md5() if info.md5 else None
        try:
            with open(temporary, "wb") as file:
                for piece in self._remote.read(info):
                    file.write(piece)
                    size += len(piece)
                    self.tally.moved(len(piece))
                    if hashed:
                        hashed.update(piece)
            if size != info.size or (hashed and hashed.digest() != info.md5):
                raise _Differs
        except BaseException:
            self.tally.moved(-size)
            raise

    def _put_in_place(self, temporary: str, name: str) -> None:
        path = self._path(name)
        folder = os.path.dirname(path)
        if folder not in self._made:
            with self._making:
                self._make(folder, name)
            self._made.add(folder)
        try:
            os.replace(temporary, path)
        except IsADirectoryError:  # what was a folder in the store is a file now
            shutil.rmtree(path)
            os.replace(temporary, path)

    def _make(self, folder: str, name: str) -> None:
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            above = name.rpartition("/")[0]
            while above and not os.path.lexists(os.path.join(self._tree, above)):
                above = above.rpartition("/")[0]
            if hash(above) in self._seen:
                raise ChoreFailed(f"`{above}` is a file in the store, and so is `{name}`") from None
            os.unlink(os.path.join(self._tree, above))  # what was a file in the store is a folder now
            os.makedirs(folder, exist_ok=True)

    def remove_rest(self) -> None:
        """What the store has no more, unless somebody reads here."""
        try:
            users = _lock(os.path.join(self._copy, "users"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        try:
            for where, folders, names in os.walk(self._tree, topdown=False):
                for name in names + [one for one in folders if os.path.islink(os.path.join(where, one))]:
                    path = os.path.join(where, name)
                    if hash(os.path.relpath(path, self._tree)) not in self._seen:
                        os.unlink(path)
                self._remove_empty(where)
        finally:
            os.close(users)

    def _remove_empty(self, folder: str) -> None:
        name = os.path.relpath(folder, self._tree)
        if name != "." and hash(name) not in self._seen and not os.listdir(folder):
            os.rmdir(folder)


def _version(info: ObjectInfo) -> tuple[object, ...]:
    return info.size, info.etag or info.modified


def _lock(path: str, how: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
    except OSError:
        os.close(fd)
        raise
    return fd
