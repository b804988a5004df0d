"""A folder with the methods of an object store, for nodes that have the store's file system mounted."""

from __future__ import annotations

import os
from typing import Iterable, Iterator, Mapping, Optional

from gofer.core import files
from gofer.objects.facts import Exists, ObjectInfo, ObjectNotFound, ObjectsError
from gofer.objects.link import Bytes

# The folder for unfinished writes, the same as in gofer.storage.file. Listings skip it.
TEMPORARY = ".gofer-tmp"
_PIECE = 1 << 20


class FileObjects:
    """Objects as files below `root`, which must exist. Any process may write; every method blocks."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)

    def get(self, key: str) -> bytes:
        return self.get_range(
            key, 0, os.path.getsize(self._path(key)) if os.path.isfile(self._path(key)) else 0
        )

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`, or all with -1. A negative start counts from the end."""
        try:
            with open(self._path(key), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(size + start, 0) if start < 0 else start)
                return file.read(length)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(404, "", "there is no such object") from None

    def put(
        self,
        key: str,
        data: Bytes,
        *,
        new: bool = False,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
        etag: Optional[str] = None,
    ) -> None:
        """Write the object.

        Files have no metadata and no version tags, so `metadata` and `etag` are ignored.
        """
        self._write(key, [data], new=new)

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> int:
        """Replace the object by the joined pieces; return the number of bytes."""
        return self._write(key, pieces)

    def _write(self, key: str, pieces: Iterable[Bytes], *, new: bool = False) -> int:
        path = self._path(key)
        temporary = os.path.join(self._root, TEMPORARY, f"{os.getpid()}-{os.urandom(8).hex()}")
        os.makedirs(os.path.dirname(temporary), exist_ok=True)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                size = sum(file.write(piece) for piece in pieces)
                file.flush()
                # The bytes must be on the disk before the name, or a power cut could leave an empty object.
                os.fsync(file.fileno())
            if new:
                # A link fails when the name exists, so of two writers only one succeeds; a rename would
                # replace the file.
                os.link(temporary, path)
            else:
                os.replace(temporary, path)
        except FileExistsError:
            raise Exists(409, "", "there is already an object with this key") from None
        finally:
            try:
                os.unlink(temporary)
            except FileNotFoundError:
                pass
        return size

    def append(self, key: str, data: bytes) -> None:
        """Append bytes to the object in one write; create the object if needed."""
        path = self._path(key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # O_APPEND: the system puts each write at the present end, also with several writers.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            files.write_all(fd, data)
        finally:
            os.close(fd)

    def stage(self, token: str, data: bytes) -> None:
        """Append to the bytes of a later `commit`; they are not visible before."""
        self.append(f"{TEMPORARY}/{token}", data)

    def commit(self, token: str, key: str) -> None:
        """Make the staged bytes the object, atomically. Without staged bytes the object is empty."""
        self.stage(token, b"")
        path = self._path(key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(self._path(f"{TEMPORARY}/{token}"), path)

    def unstage(self, token: str) -> None:
        files.remove(self._path(f"{TEMPORARY}/{token}"))

    def head(self, key: str) -> Optional[ObjectInfo]:
        path = self._path(key)
        if not os.path.isfile(path):
            return None
        status = os.stat(path)
        return ObjectInfo(key, status.st_size, status.st_mtime)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The object `prefix`, or all objects in the folder of that name, in key order."""
        info = self.head(prefix) if prefix else None
        if info:
            yield info
            return
        yield from self._walk(prefix)

    def _walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Walk in the order of whole keys, which sorts a folder as `name/`."""
        try:
            with os.scandir(self._path(folder) if folder else self._root) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, is_folder in sorted((f"{name}/" if is_dir else name, is_dir) for name, is_dir in found):
            key = f"{folder}/{name}" if folder else name
            info = None if is_folder else self.head(key)
            if is_folder and key != f"{TEMPORARY}/":
                yield from self._walk(key[:-1])
            elif info:
                yield info

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        """The names of the folders directly under `prefix`, in order."""
        try:
            with os.scandir(self._path(prefix) if prefix else self._root) as entries:
                found = sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return iter(())
        return (name for name in found if prefix or name != TEMPORARY)

    def copy(self, source: str, destination: str) -> None:
        """Copy an object; ObjectNotFound when there is no source."""
        try:
            with open(self._path(source), "rb") as file:
                self._write(destination, iter(lambda: file.read(_PIECE), b""))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(404, "", "there is no such object") from None

    def delete(self, keys: Iterable[str]) -> int:
        return sum(self._delete(key) for key in keys)

    def _delete(self, key: str) -> bool:
        try:
            os.unlink(self._path(key))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
        try:  # empty folders must not stay, because a folder exists only through its objects
            self._tidy(key)
        except OSError:
            pass  # the folder has other objects, or belongs to another user
        return True

    def _tidy(self, key: str) -> None:
        while "/" in key:
            key = key.rpartition("/")[0]
            os.rmdir(self._path(key))

    def _path(self, key: str) -> str:
        if any(part in ("", ".", "..") for part in key.split("/")) or "\0" in key:
            raise ObjectsError(0, "key", f"{key!r} is not a key")
        return os.path.join(self._root, key)
