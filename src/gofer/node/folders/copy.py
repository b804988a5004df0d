"""Copy a folder of a store to this machine, once for all runs: only files that are missing or have changed.

    <copy>/tree/       the files, read-only; the folders are read-only too, except during a copy
    <copy>/partial/    files that are being copied
    <copy>/copying     locked by the process that copies
    <copy>/users       locked by the runs that read: see `hold`
    <copy>/whole       its time is when the tree was last compared with the store
    <copy>/readers     the runs that have read since then
    <copy>/open        folders of the tree may be writable

The modification time of a file encodes the version of its object (`remote.stamp_ns`). So no other record is
needed, and an interrupted copy can continue. Root can change a read-only file; such a file has another time.
It is fetched again, and reported together with the runs that may have changed it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import threading
from typing import Iterator, List, Mapping, Set

from gofer.core import files, private_folder
from gofer.core.code import trees
from gofer.core.parallel import ProgressTally, SendMessage, each
from gofer.core.store_spec import StoreSpec
from gofer.node.cancellable_task import WorkFailed
from gofer.node.folders.remote import RemoteFolder, explain, is_executable, is_gone, is_marker, stamp_ns
from gofer.objects.facts import ObjectInfo, ObjectsError

AT_ONCE = 16
_TRIES = 3


class _Differs(Exception):
    """The bytes that arrived do not fit the listing."""


def place_of(queue_home: str, store: str, path: str) -> str:
    """The folder that holds the copy of a path in a store."""
    name = hashlib.sha256(f"{store}\n{path}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return os.path.join(queue_home, "folders", name)


def tree_of(copy: str) -> str:
    return os.path.join(copy, "tree")


def hold(copy: str, run_id: str) -> int:
    """Keep the files from being removed until the returned descriptor is closed. May block for a moment.

    `run_id` is recorded, so that it can be reported if files turn out to be changed.
    """
    held = files.lock(os.path.join(copy, "users"), fcntl.LOCK_SH)
    files.append(os.path.join(copy, "readers"), f"{run_id}\n".encode())
    return held


def copy(spec: StoreSpec, copy: str, facts: Mapping[str, str], send_message: SendMessage) -> None:
    """Bring the copy up to date with the folder. Blocks. `send_message` gets the progress, and a message
    while another process copies.

    `facts` are stored beside the copy, for people. Files that are gone from the store are removed, unless a
    run uses the copy. Raises WorkFailed, ObjectsError or OSError; files that have arrived stay for the next
    try.
    """
    with _Copying(copy, send_message):
        files.write_whole(os.path.join(copy, "about.json"), files.encode(dict(facts)))
        work = _Copy(RemoteFolder(spec), copy, ProgressTally(send_message))
        try:
            each(work.missing(), work.fetch, at_once=AT_ONCE)
            work.remove_rest()
        finally:
            work.folders.close()
        work.tally.report()
        if work.changed:
            send_message({"restored": {"names": work.changed, "runs": work.readers()}})
        if work.is_alone:
            files.remove(os.path.join(copy, "readers"))
        files.write_whole(os.path.join(copy, "whole"), b"")


class _TreeFolders:
    """Makes folders of a tree writable for the copying process, and read-only again afterwards."""

    def __init__(self, copy: str) -> None:
        self._tree = tree_of(copy)
        self._mark = os.path.join(copy, "open")
        self._opened: Set[str] = set()
        self._was_killed = os.path.exists(self._mark)

    def open(self, folder: str) -> None:
        """Make a folder and the folders above it writable, as far as they exist."""
        while folder not in self._opened and len(folder) >= len(self._tree):
            if not self._opened:
                with open(self._mark, "wb"):
                    pass
            trees.open_folder(folder)
            self._opened.add(folder)
            folder = os.path.dirname(folder)

    def close(self) -> None:
        """Make all folders read-only again, also those that a killed copy left writable."""
        if self._was_killed:
            self._opened.update(where for where, _, _ in os.walk(self._tree))
        for folder in self._opened:
            try:
                os.chmod(folder, 0o500 if folder == self._tree else 0o555)
            except FileNotFoundError:
                continue
        files.remove(self._mark)


class _Copying:
    """The lock for copying, and the folders for it. A second process reports that it waits, and waits."""

    def __init__(self, copy: str, send_message: SendMessage) -> None:
        self._copy = copy
        self._path = os.path.join(copy, "copying")
        self._send_message = send_message
        self._fd = -1

    def __enter__(self) -> None:
        for _ in range(_TRIES):
            for folder in (tree_of(self._copy), os.path.join(self._copy, "partial")):
                private_folder.make_missing(folder)
            try:
                self._fd = self._take()
            except FileNotFoundError:
                continue  # `prune` is removing an old copy: see gofer.core.prune
            if self._is_there():
                return
            os.close(self._fd)
        raise WorkFailed("other processes keep removing its copy on this machine")

    def _is_there(self) -> bool:
        """Whether the lock file is still the one in the folder. The last holder may have removed the copy."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _take(self) -> int:
        try:
            return files.lock(self._path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._send_message({"waiting": True})
            return files.lock(self._path, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class _Copy:
    """One pass over the folder, by the process that holds the lock."""

    def __init__(self, remote: RemoteFolder, copy: str, tally: ProgressTally) -> None:
        self._remote = remote
        self._copy = copy
        self._tree = tree_of(copy)
        self._partial = os.path.join(copy, "partial")
        # Hashes of names, to save memory: there may be millions.
        self._seen: Set[int] = set()
        self._made: Set[str] = set()
        self._making = threading.Lock()
        self._compared_ns = _time_ns(os.path.join(copy, "whole"))
        self.folders = _TreeFolders(copy)
        self.changed: List[str] = []
        self.is_alone = False
        self.tally = tally
        for name in os.listdir(self._partial):  # left by killed copies
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
                self.tally.add_file(info.size)
                yield info

    def _path(self, name: str) -> str:
        if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
            raise WorkFailed(f"no file can be called {name!r}, the name of an object in the store")
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
        if status.st_mode & 0o222:  # an older gofer, or a run as root, left the file writable
            os.chmod(self._path(info.key), stat.S_IMODE(status.st_mode) & 0o555)
        return True

    def _name_if_changed(self, name: str, status: os.stat_result) -> None:
        """Note a file that a run has changed: it is younger than the last comparison, so it did not come from
        the store. The clock of file times is coarse, so a file that is written at once has the same time.
        """
        if self._compared_ns and min(status.st_ctime_ns, status.st_mtime_ns) >= self._compared_ns:
            self.changed.append(name)

    def readers(self) -> List[str]:
        """The runs that have used the copy since the last comparison."""
        try:
            with open(os.path.join(self._copy, "readers"), encoding="utf-8") as file:
                return list(dict.fromkeys(file.read().split()))
        except FileNotFoundError:
            return []

    def fetch(self, info: ObjectInfo) -> None:
        """Fetch one object. Any thread. An object that is removed in the meantime is not an error."""
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
            self.tally.add_moved(0, files=1)
            return
        raise WorkFailed(f"`{info.key}` changes each time it is read")

    def _write(self, info: ObjectInfo, temporary: str) -> None:
        size, hashed = 0, hashlib.md5() if info.md5 else None
        try:
            with open(temporary, "wb") as file:
                for piece in self._remote.read(info):
                    file.write(piece)
                    size += len(piece)
                    self.tally.add_moved(len(piece))
                    if hashed:
                        hashed.update(piece)
            if size != info.size or (hashed and hashed.digest() != info.md5):
                raise _Differs
        except BaseException:
            self.tally.add_moved(-size)
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
        except IsADirectoryError:  # the store has a file now where it had a folder
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
                raise WorkFailed(f"`{above}` is a file in the store, and so is `{name}`") from None
            os.unlink(os.path.join(self._tree, above))  # the store has a folder now where it had a file
            os.makedirs(folder, exist_ok=True)

    def remove_rest(self) -> None:
        """Remove files that are gone from the store, unless a run uses the copy."""
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
    """The modification time of a file; 0 when it is absent."""
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _version(info: ObjectInfo) -> tuple[object, ...]:
    return info.size, info.etag or info.modified
