"""Writes downloads: first to a temporary name in the same folder, then, when complete, to the final name.

Nothing is written through a link that leads out of the folder. A lock on a temporary file says that a process
is still writing it; a file without a lock was left by a killed process.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from itertools import count

from gofer.errors import StoreError
from gofer.storage.base import check_key
from gofer.transfer.walk import PART_PREFIX

_PART = os.fsdecode(PART_PREFIX)
_WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_REMEMBERED = 50_000
_MAKE_ATTEMPTS = 20  # meanwhile another thread may write or remove an empty file with the folder's name


class DownloadFolder:
    """Writes files below `root`; an empty path means `root` itself.

    Any thread; raises OSError and StoreError.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._inside = os.path.realpath(root)
        self._ready: set[str] = set()
        # Process id and random bytes: temporary names must differ between processes and machines.
        self._stem = f"{_PART}{os.getpid():x}-{os.urandom(4).hex()}"
        self._number = count()

    def target(self, path: str) -> str:
        """The final path, in a folder that exists then. StoreError for a path that leads out of the root."""
        if not path:
            os.makedirs(os.path.dirname(self._root) or ".", exist_ok=True)
            return self._root
        check_key(path)
        folder, _, name = path.rpartition("/")
        if name.startswith(_PART):
            raise StoreError(f"{path!r} has a name that is reserved for gofer's unfinished downloads")
        if folder not in self._ready:
            self._prepare(folder)
        return f"{self._root}/{path}"

    def write(self, path: str, data: bytes | memoryview, mtime_ns: int, *, executable: bool) -> None:
        """Write a file atomically: it is complete when this returns; after an error, the old file is
        unchanged.
        """
        target = self.target(path)
        part = self._temporary_name(target)
        file = os.open(part, _WRITE | os.O_EXCL, 0o777 if executable else 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = os.write(file, data)
            while done < len(data):
                done += os.write(file, memoryview(data)[done:])
            # The time of the content, so that the next comparison finds the file unchanged.
            os.utime(file, ns=(mtime_ns, mtime_ns))
            place(part, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part)
            raise
        finally:
            os.close(file)

    def open_part(self, path: str, identity: str) -> tuple[int, str]:
        """A locked, unfinished file for this content, as (descriptor, path).

        It is the file that an earlier process left, or a new one.
        """
        target = self.target(path)
        part = os.path.join(os.path.dirname(target), f"{_PART}{identity}")
        while True:
            file = os.open(part, _WRITE, 0o666)
            # Between open and lock, another process may have finished the file and renamed it.
            if _lock(file) and has_name(part, file):
                return file, part
            os.close(file)
            part = self._temporary_name(target)  # another process is fetching the same object

    def _temporary_name(self, target: str) -> str:
        return f"{target[: target.rfind('/') + 1]}{self._stem}-{next(self._number):x}"

    def _prepare(self, folder: str) -> None:
        """Make the folder and its parents, and check that each is inside the root."""
        if len(self._ready) > _REMEMBERED:
            self._ready.clear()
        os.makedirs(self._root, exist_ok=True)
        at = ""
        for name in folder.split("/") if folder else ():
            at = f"{at}/{name}" if at else name
            if at not in self._ready:
                self._make(at)
                self._ready.add(at)
        self._ready.add(folder)

    def _make(self, folder: str) -> None:
        """Make one folder whose parent exists. Several threads may make the same folder."""
        where = f"{self._root}/{folder}"
        for _ in range(_MAKE_ATTEMPTS):
            with suppress(FileExistsError):
                os.mkdir(where)
                return
            with suppress(FileNotFoundError, IsADirectoryError):
                found = os.lstat(where)
                if stat.S_ISREG(found.st_mode) and not found.st_size:
                    # Some tools mark a folder by an empty object of the same name, which may have been
                    # written first.
                    os.unlink(where)
                else:
                    return self._check_folder(where, found)
        raise StoreError(f"`{where}` is a file, but a folder is needed there")

    def _check_folder(self, where: str, found: os.stat_result) -> None:
        """Raise StoreError unless `where` is a folder, or a link to a folder below the root."""
        if stat.S_ISDIR(found.st_mode):
            return
        if not stat.S_ISLNK(found.st_mode):
            raise StoreError(f"`{where}` is a file, but a folder is needed there")
        if not f"{os.path.realpath(where)}/".startswith(f"{self._inside}/"):
            raise StoreError(f"`{where}` is a link that leads out of the folder, so it is not used")
        if not os.path.isdir(where):
            raise StoreError(f"`{where}` is a link to nothing, but a folder is needed there")


class FolderInTheWay(StoreError):
    """The final name of the file is taken by a folder."""


def place(part: str, target: str) -> None:
    """Give the complete file its final name. Replaces a link of that name; FolderInTheWay for a folder."""
    try:
        os.replace(part, target)
    except IsADirectoryError:
        raise FolderInTheWay(f"`{target}` is a folder, but a file is to be written there") from None


def remove_leftover(part: str) -> bool:
    """Remove an unfinished file unless a process is writing it."""
    try:
        file = os.open(part, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if not _lock(file) or not has_name(part, file):
            return False
        os.unlink(part)
        return True
    finally:
        os.close(file)


def has_name(name: str, file: int) -> bool:
    """Whether the open file still has that name."""
    try:
        return os.path.samestat(os.stat(name, follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
