"""Brings a folder of a store to this machine, once for all runs: only what is missing or has changed.

    <copy>/tree/       the files, read-only, and so are the folders while nobody copies
    <copy>/partial/    files on their way
    <copy>/copying     locked by whoever copies
    <copy>/users       locked by whoever reads: see `hold`
    <copy>/whole       its time is when the tree was last compared with the store
    <copy>/readers     the runs that have read since then
    <copy>/open        folders of the tree may be writable

A file's time says which version of the object it is (`remote_folder.stamp_ns`), so nothing else need be
kept, and a copy that was cut off goes on where it was. A file that a run has changed all the same (root may)
has another time: it is fetched again, and named with the runs that may have changed it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import threading
from typing import Any, Iterator, List, Mapping, Set

from gofer.core import files, private_folder, trees
from gofer.core.parallel import ProgressTally, Say, each
from gofer.node.cancellable_task import ChoreFailed
from gofer.node.folders.remote import RemoteFolder, explain, is_executable, is_gone, is_marker, stamp_ns
from gofer.objects.facts import ObjectInfo, ObjectsError

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


def hold(copy: str, run_id: str) -> int:
    """Keep the files from being removed until the descriptor is closed. Blocks for moments at most.

    `run_id` is named should the files be found changed.
    """
    held = files.lock(os.path.join(copy, "users"), fcntl.LOCK_SH)
    files.append(os.path.join(copy, "readers"), f"{run_id}\n".encode())
    return held


def copy(spec: Mapping[str, Any], copy: str, facts: Mapping[str, str], say: Say) -> None:
    """Make the copy like the folder. Says how far it is, and that it waits while somebody else copies.

    `facts` are kept beside it, for people. Files that the store has no more are removed unless a run reads
    here. ChoreFailed, ObjectsError or OSError; what has arrived by then is there for the next try.
    """
    with _Copying(copy, say):
        files.write_whole(os.path.join(copy, "about.json"), files.encode(dict(facts)))
        work = _Copy(RemoteFolder(spec), copy, ProgressTally(say))
        try:
            each(work.missing(), work.fetch, at_once=AT_ONCE)
            work.remove_rest()
        finally:
            work.folders.close()
        work.tally.tell()
        if work.changed:
            say({"restored": {"names": work.changed, "runs": work.readers()}})
        if work.is_alone:
            files.remove(os.path.join(copy, "readers"))
        files.write_whole(os.path.join(copy, "whole"), b"")


class _TreeFolders:
    """The folders of a tree: read-only, but for those that the one process that copies has to write in."""

    def __init__(self, copy: str) -> None:
        self._tree = tree_of(copy)
        self._mark = os.path.join(copy, "open")
        self._opened: Set[str] = set()
        self._was_killed = os.path.exists(self._mark)

    def open(self, folder: str) -> None:
        """Let this process write in a folder and in those above it, as far as they are there."""
        while folder not in self._opened and len(folder) >= len(self._tree):
            if not self._opened:
                with open(self._mark, "wb"):
                    pass
            trees.open_folder(folder)
            self._opened.add(folder)
            folder = os.path.dirname(folder)

    def close(self) -> None:
        """Have all of them read-only, also those that a copy that was killed left open."""
        if self._was_killed:
            self._opened.update(where for where, _, _ in os.walk(self._tree))
        for folder in self._opened:
            try:
                os.chmod(folder, 0o500 if folder == self._tree else 0o555)
            except FileNotFoundError:
                continue
        files.remove(self._mark)


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
                private_folder.make_missing(folder)
            try:
                self._fd = self._take()
            except FileNotFoundError:
                continue  # an old copy is being removed: see gofer.core.prune
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
            return files.lock(self._path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._say({"waiting": True})
            return files.lock(self._path, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class _Copy:
    """One pass over the folder, by the one process that may."""

    def __init__(self, remote: RemoteFolder, copy: str, tally: ProgressTally) -> None:
        self._remote = remote
        self._copy = copy
        self._tree = tree_of(copy)
        self._partial = os.path.join(copy, "partial")
        # Hashes of names, since there may be millions.
        self._seen: Set[int] = set()
        self._made: Set[str] = set()
        self._making = threading.Lock()
        self._compared_ns = _time_ns(os.path.join(copy, "whole"))
        self.folders = _TreeFolders(copy)
        self.changed: List[str] = []
        self.is_alone = False
        self.tally = tally
        for name in os.listdir(self._partial):  # of copies that were killed
            os.unlink(os.path.join(self._partial, name))

    def missing(self) -> Iterator[ObjectInfo]:
        for info in self._remote.list():
            if is_marker(info):
                path = self._path(info.key.rstrip("/"))
                if not os.path.isdir(path):
                    with self._making:
                        self.folders.open(path)
                        os.makedirs(path, exist_ok=True)
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
        if not stat.S_ISREG(status.st_mode) or not is_same:
            self._name_if_changed(info.key, status)
            return False
        if status.st_mode & 0o222:  # of an older gofer, or of a run that could not write otherwise
            os.chmod(self._path(info.key), stat.S_IMODE(status.st_mode) & 0o555)
        return True

    def _name_if_changed(self, name: str, status: os.stat_result) -> None:
        """A run has written what is younger than the last comparison, and not the store."""
        if self._compared_ns and min(status.st_ctime_ns, status.st_mtime_ns) > self._compared_ns:
            self.changed.append(name)

    def readers(self) -> List[str]:
        """The runs that have read since the last comparison."""
        try:
            with open(os.path.join(self._copy, "readers"), encoding="utf-8") as file:
                return list(dict.fromkeys(file.read().split()))
        except FileNotFoundError:
            return []

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
            os.chmod(temporary, 0o555 if is_executable(info) else 0o444)
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
                self.folders.open(folder)
                self._make(folder, name)
            self._made.add(folder)
        try:
            os.replace(temporary, path)
        except IsADirectoryError:  # what was a folder in the store is a file now
            trees.remove_tree(path)
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
            users = files.lock(os.path.join(self._copy, "users"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        try:
            for where, folders, names in os.walk(self._tree, topdown=False):
                for name in names + [one for one in folders if os.path.islink(os.path.join(where, one))]:
                    path = os.path.join(where, name)
                    if hash(os.path.relpath(path, self._tree)) not in self._seen:
                        self._name_if_changed(os.path.relpath(path, self._tree), os.lstat(path))
                        self.folders.open(where)
                        os.unlink(path)
                self._remove_empty(where)
            self.is_alone = True
        finally:
            os.close(users)

    def _remove_empty(self, folder: str) -> None:
        name = os.path.relpath(folder, self._tree)
        if name != "." and hash(name) not in self._seen and not os.listdir(folder):
            self.folders.open(os.path.dirname(folder))
            os.rmdir(folder)


def _time_ns(path: str) -> int:
    """0 when there is no such file."""
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _version(info: ObjectInfo) -> tuple[object, ...]:
    return info.size, info.etag or info.modified
