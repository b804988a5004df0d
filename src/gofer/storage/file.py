"""A store that is a folder on this machine, or on a file system that machines share.

An object is a file, and its key is the path below the root, so people and commands can read and write there
too. Symbolic links to files are objects. Links to folders are not followed, and other special files are not
objects.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType

from gofer.core import private_folder
from gofer.errors import KeyExists, StoreError
from gofer.storage.base import ObjectInfo, check_key, check_prefix, no_such_key
from gofer.text import quote_word

_Entries = list[os.DirEntry[str]]
_Errors = list[StoreError]  # in FileStore, `list` is a method
_ABSENT = (FileNotFoundError, NotADirectoryError)
_COPY_CHUNK = 1 << 20
_DELETE_RACES = 20  # a delete may remove an empty folder between its creation and its first file
TEMP_FOLDER = ".gofer-tmp"
_STALE_S = 86400.0


class FileStore:
    """The store in the folder `root`. StoreError when the folder does not exist, unless `create` is set."""

    def __init__(self, root: Path, *, create: bool = False) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = self.root.as_uri()
        if create:
            with self._explained("make", ""):
                private_folder.make_missing(self.root)
                sweep(self.root)
        elif not self.root.is_dir():
            raise self._gone()

    def path(self, key: str) -> Path:
        """The path of the object, whether it exists or not."""
        if check_key(key).split("/", 1)[0] == TEMP_FOLDER:
            raise StoreError(f"{key!r} is not a key: {TEMP_FOLDER} is for unfinished writes in {self.url}")
        return self.root / key

    def get(self, key: str) -> bytes:
        with self._opened(key) as file:
            return _read(file, os.fstat(file).st_size)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length < 0:
            raise StoreError(f"cannot read {length} bytes of {key!r} in {self.url}")
        with self._opened(key) as file:
            size = os.fstat(file).st_size
            first = start if start >= 0 else max(size + start, 0)
            os.lseek(file, first, os.SEEK_SET)
            return _read(file, min(length, max(size - first, 0)))

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Durable: the bytes are on the disk before the name appears."""
        path = self.path(key)
        with self._explained("write", key), WholeFile(self.root) as whole:
            whole.write(data)
            self._place(whole, path, key, new=new)

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        from gofer.objects.compare_and_swap import compare_and_swap, old_md5  # few commands need it

        with self._explained("write", check_key(key)):
            return compare_and_swap(str(self.root), key, old_md5(old), new)

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The file as it was when opened. A later replacement is not seen."""
        opened = self._opened(key)
        file = opened.__enter__()
        return self._pieces(opened, key, file, start, length)

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """As the contract, but a folder keeps no metadata, so `metadata` is ignored."""
        import hashlib  # slow to load because of OpenSSL, and few commands stream

        path = self.path(key)
        hashed, total = hashlib.md5(), 0
        with self._explained("write", key), WholeFile(self.root) as whole:
            for piece in pieces:
                whole.write(piece)
                hashed.update(piece)
                total += len(piece)
            if md5 not in (None, hashed.digest()):
                raise StoreError(f"cannot write {key!r} in {self.url}: the bytes do not have the given MD5")
            self._place(whole, path, key, new=False)
        return total

    def append(self, key: str, data: bytes) -> None:
        """Append in one write. Not forced to the disk."""
        path = self.path(key)
        with self._explained("append to", key):
            self._in_folder(path, lambda: _append(path, data))

    def copy(self, source: str, destination: str) -> None:
        path = self.path(destination)
        writing = self._explained("write", destination)
        with self._opened(source) as file, writing, WholeFile(self.root) as whole:
            while chunk := os.read(file, _COPY_CHUNK):
                whole.write(chunk)
            self._place(whole, path, destination, new=False)

    def head(self, key: str) -> ObjectInfo | None:
        path = self.path(key)
        with self._explained("read", key):
            try:
                status = os.stat(path)
            except _ABSENT:
                return None
        return ObjectInfo(key, status.st_size, status.st_mtime) if stat.S_ISREG(status.st_mode) else None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The objects below `prefix`. A folder that cannot be read is an error, raised after all the rest."""
        info = self.head(prefix) if prefix else None
        if info:
            yield info
            return
        unreadable: _Errors = []
        yield from self._walk(check_prefix(prefix), unreadable)
        if unreadable:
            raise unreadable[0]

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        entries = self._scan(check_prefix(prefix))
        yield from sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def list_level(self, prefix: str = "") -> Iterator[ObjectInfo | str]:
        """The objects directly in the folder `prefix`, and the names of its folders."""
        for entry in self._scan(check_prefix(prefix)):
            if entry.is_dir(follow_symlinks=False):
                yield entry.name
            elif info := self.head(f"{prefix}/{entry.name}" if prefix else entry.name):
                yield info

    def delete(self, keys: Iterable[str]) -> int:
        """Remove objects, and the folders that become empty: a folder exists only through its objects."""
        return sum(self._delete(key) for key in keys)

    def _delete(self, key: str) -> bool:
        path = self.path(key)
        with self._explained("delete", key):
            try:
                os.unlink(path)
            except (*_ABSENT, IsADirectoryError):
                return False
        with suppress(OSError):  # a folder with other objects, or of another user
            for folder in path.parents:
                if folder == self.root:
                    break
                os.rmdir(folder)
        return True

    def _place(self, whole: WholeFile, path: Path, key: str, *, new: bool) -> None:
        def act() -> None:
            try:
                whole.place(path, new=new)
            except FileExistsError:
                raise KeyExists(f"the store {self.url} already has an object {key!r}") from None

        # To the disk before the rename, or a power cut could leave an empty file under the final name.
        whole.flush()
        self._in_folder(path, act)

    def _in_folder(self, path: Path, act: Callable[[], None]) -> None:
        for _ in range(_DELETE_RACES):
            try:
                return act()
            except FileNotFoundError:
                if not self.root.is_dir():  # never write to the place of a mount that is missing
                    raise
            with suppress(FileNotFoundError, FileExistsError):  # another process removes it meanwhile
                path.parent.mkdir(parents=True, exist_ok=True)
        return act()

    def _walk(self, folder: str, unreadable: _Errors) -> Iterator[ObjectInfo]:
        """Walk in the order of whole keys, which sorts a folder as `name/`. Errors go to `unreadable`."""
        try:
            entries = self._scan(folder)
        except StoreError as error:
            unreadable.append(error)
            return
        folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        for name in sorted(f"{e.name}/" if e.name in folders else e.name for e in entries):
            key = f"{folder}/{name}" if folder else name
            if name.endswith("/"):
                yield from self._walk(key[:-1], unreadable)
            elif info := self.head(key):
                yield info

    def _scan(self, folder: str) -> _Entries:
        with self._explained("list", folder):
            try:
                with os.scandir(self.path(folder) if folder else self.root) as entries:
                    return [entry for entry in entries if folder or entry.name != TEMP_FOLDER]
            except _ABSENT:
                if not self.root.is_dir():
                    raise
                return []

    def _pieces(
        self, opened: AbstractContextManager[int], key: str, file: int, start: int, length: int | None
    ) -> Iterator[bytes]:
        try:
            with self._explained("read", key):
                os.lseek(file, start, os.SEEK_SET)
                left = length
                while left != 0 and (piece := os.read(file, min(left or _COPY_CHUNK, _COPY_CHUNK))):
                    left = left - len(piece) if left is not None else None
                    yield piece
        finally:
            opened.__exit__(None, None, None)

    @contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        path = self.path(key)
        with self._explained("read", key):
            try:
                # O_NONBLOCK: a command may have left a named pipe among its outputs, and opening one would
                # block.
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except _ABSENT:
                raise no_such_key(self.url, key) from None
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise no_such_key(self.url, key)
                yield file
            finally:
                os.close(file)

    @contextmanager
    def _explained(self, verb: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self.root.is_dir():
                raise self._gone() from error
            why = (error.strerror or str(error)).lower()
            where = f"{key!r} in the store {self.url}" if key else f"the store {self.url}"
            raise StoreError(f"cannot {verb} {where}: {why}", hint=self._hint(error)) from error

    def _hint(self, error: OSError) -> str | None:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"make {quote_word(str(self.root))} writable, or set `GOFER_HOME` to a writable folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"free some space: `df -h {quote_word(str(self.root))}`"
        return None

    def _gone(self) -> StoreError:
        return StoreError(
            f"the store {self.url} is not there: there is no folder {self.root}",
            hint=f"mount it, or create it with `mkdir -p {quote_word(str(self.root))}`",
        )


def _read(file: int, size: int) -> bytes:
    """Up to `size` bytes; fewer only at the end of the file."""
    chunks: list[bytes] = []
    while size > 0 and (chunk := os.read(file, size)):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _append(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        write_all(file, data)
    finally:
        os.close(file)


class WholeFile:
    """A context for one file: `write` its bytes, then `place` it. Without `place`, nothing is left of it.

    A killed process leaves its temporary file in TEMP_FOLDER, where `sweep` removes it. Raises OSError.
    """

    def __init__(self, root: Path) -> None:
        self._temp = root / TEMP_FOLDER / f"{os.getpid()}-{os.urandom(8).hex()}"
        self._file = -1

    def __enter__(self) -> WholeFile:
        # O_EXCL: never write into a file that another process made.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._file = os.open(self._temp, flags, 0o666)
        except FileNotFoundError:
            with suppress(FileExistsError):
                # Not the root too: the folder of a store that is not mounted must not be made.
                os.mkdir(self._temp.parent)
            self._file = os.open(self._temp, flags, 0o666)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
        with suppress(FileNotFoundError):
            os.unlink(self._temp)

    def write(self, data: bytes) -> None:
        write_all(self._file, data)

    def flush(self) -> None:
        """Write the bytes to the disk (fsync). Blocking."""
        os.fsync(self._file)

    def place(self, path: Path, *, new: bool) -> None:
        """Give the file its name, atomically; with `new`, FileExistsError when the name is taken."""
        if not new:
            os.replace(self._temp, path)
            return
        try:
            os.link(self._temp, path)
        except FileExistsError:
            # Over NFS, the answer to a link can be lost and the link repeated: the second try then finds the
            # name taken. Two links to the file mean that the name is our own.
            if os.fstat(self._file).st_nlink < 2:
                raise


def write_all(file: int, data: bytes) -> None:
    """Write all bytes. One write is enough, except on full disks and beyond 2 GiB."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def sweep(root: Path) -> None:
    """Remove temporary files that killed processes left more than a day ago. Errors are ignored."""
    before = time.time() - _STALE_S
    with suppress(OSError), os.scandir(root / TEMP_FOLDER) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)
