"""Files of a store from Python: `gofer.open(path)` is one of them, `gofer.PackedFolder(path)` a folder.

    with gofer.open("data/voc20/x.jpg") as file:
        image = Image.open(file)

    images = gofer.PackedFolder("data/imagenet")     # a mapping: name -> bytes
    data = images["train/n01440764/1.jpg"]           # one range read

Paths mean what they mean on the command line, and need not be packed. All of it may be used from several
threads, from processes that were forked, and from those that a pickle was sent to: connections belong to the
process that made them, and a pickle holds no credential.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.errors import KeyNotFound
from gofer.ops.data.contents import missing
from gofer.ops.data.places import resolve
from gofer.ops.session import Session
from gofer.transfer.packs.folder import FolderOfPacks, read_folder
from gofer.transfer.packs.index import Index
from gofer.transfer.packs.view import find_packed, join

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath
    from gofer.storage.base import Store

_PathLike = str | os.PathLike[str]
# What is read at once where somebody reads little by little; a small file is read whole.
_BUFFER = 256 << 10
_SMALL = 1 << 20


class _Where(NamedTuple):
    """A path as it was given, and where: enough to find it again in another process."""

    path: str
    target: str | None
    folder: str

    @classmethod
    def of(cls, path: _PathLike, target: str | None, folder: _PathLike | None) -> _Where:
        return cls(os.fspath(path), target, os.path.abspath(folder or os.curdir))


class _Process:
    """What this process has opened; a fork begins with none of it. Any thread may use it."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """With nothing."""
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str | None, str], Session] = {}
        self._folders: dict[tuple[str, str], FolderOfPacks] = {}
        self._stores: dict[_Where, Store] = {}

    def store(self, where: _Where) -> Store:
        """That of a folder that is read from again and again."""
        if where not in self._stores:
            self._stores[where] = self.place(where).store
        return self._stores[where]

    def place(self, where: _Where) -> StorePath:
        with self._lock:
            session = self._sessions.get(where[1:])
            if session is None:
                session = Session(Path(where.folder), target=where.target, emit=_be_silent)
                self._sessions[where[1:]] = session
            return resolve(session, where.path, where.target)

    def known(self, place: StorePath) -> tuple[FolderOfPacks, str] | None:
        """The packed folder that was read before and has the file, and the file's name there."""
        parts = place.key.split("/")
        for length in range(len(parts) - 1, -1, -1):
            folder = self._folders.get((place.store.url, "/".join(parts[:length])))
            name = "/".join(parts[length:])
            if folder and folder.size(name) is not None:
                return folder, name
        return None

    def keep(self, store: Store, folder: FolderOfPacks) -> None:
        self._folders[store.url, folder.root] = folder


_process = _Process()


# Another process's connections must not be written to, nor its lock waited for.
os.register_at_fork(after_in_child=_process.begin)


def open(path: _PathLike, *, target: str | None = None, folder: _PathLike | None = None) -> io.BufferedReader:
    """A file of a store for reading in binary, with random access: only what is read is fetched.

    A small file is one request; the first out of a packed folder also reads that folder's index, which the
    process keeps. gofer.errors.KeyNotFound when there is no such file.
    """
    place = _process.place(_Where.of(path, target, folder))
    known = _process.known(place)
    if known:
        return _open(place.store, *known)
    info = place.store.head(place.key) if place.key else None
    if info:
        return _buffered(info.size, lambda start, length: place.store.get_range(place.key, start, length))
    packs = find_packed(place.store, place.key, place.top)
    if packs:
        found = read_folder(place.store, packs.root)
        _process.keep(place.store, found)
        name = place.key[len(packs.root) :].lstrip("/")
        if found.size(name) is not None:
            return _open(place.store, found, name)
    raise missing(place)


class PackedFolder(Mapping[str, bytes]):
    """The files of a folder in a store by their path in it, as they were when it was opened.

    The folder may be packed, lie in a packed one, or be neither. Opening it costs a listing and the index,
    each file one range read. gofer.errors.KeyNotFound when there is no such folder.
    """

    def __init__(
        self, path: _PathLike, *, target: str | None = None, folder: _PathLike | None = None
    ) -> None:
        self._where = _Where.of(path, target, folder)
        self._names: list[str] | None = None
        place = _process.place(self._where)
        self._folder, self._inside = _find_folder(place)
        if next(self._folder.names(self._inside), None) is None and not place.is_whole:
            raise missing(place)
        if self._folder.generation:
            _process.keep(place.store, self._folder)

    def __repr__(self) -> str:
        return f"PackedFolder({self._where.path!r})"

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._folder.size(join(self._inside, name)) is not None

    def __getitem__(self, name: str) -> bytes:
        """The whole file, checked if it is packed; KeyError for a name that is not there."""
        self.size(name)
        store = _process.store(self._where)
        try:
            return self._folder.read(store, join(self._inside, name))
        except KeyNotFound:
            # Somebody packed the folder again, and the old packs are gone.
            self._folder, self._names = read_folder(store, self._folder.root), None
            self.size(name)
            return self._folder.read(store, join(self._inside, name))

    @property
    def names(self) -> list[str]:
        """The paths of all files, in order."""
        if self._names is None:
            skip = len(self._inside) + 1 if self._inside else 0
            self._names = sorted(name[skip:] for name in self._folder.names(self._inside))
        return self._names

    def size(self, name: str) -> int:
        """How many bytes the file has; KeyError for a name that is not there."""
        size = self._folder.size(join(self._inside, name)) if name else None
        if size is None:
            raise KeyError(name)
        return size

    def open(self, name: str) -> io.BufferedReader:
        """The file for reading in binary, with random access; KeyError for a name that is not there."""
        self.size(name)
        return _open(_process.store(self._where), self._folder, join(self._inside, name))

    def __getstate__(self) -> dict[str, Any]:
        root, generation, contents, loose = self._folder
        folder = (root, generation, contents.encode(), dict(loose))
        return {"where": tuple(self._where), "inside": self._inside, "folder": folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        root, generation, index, loose = state["folder"]
        self._where, self._inside, self._names = _Where(*state["where"]), state["inside"], None
        self._folder = FolderOfPacks(root, generation, Index.decode(index, repr(root)), loose)


def _find_folder(place: StorePath) -> tuple[FolderOfPacks, str]:
    """The folder itself, or the packed one that it lies in and its path there."""
    folder = read_folder(place.store, place.key)
    if folder.generation:
        return folder, ""
    packs = find_packed(place.store, place.key.rpartition("/")[0], place.top) if place.inside else None
    if packs is None:
        return folder, ""
    return read_folder(place.store, packs.root), place.key[len(packs.root) :].lstrip("/")


def _open(store: Store, folder: FolderOfPacks, name: str) -> io.BufferedReader:
    size = folder.size(name)
    assert size is not None, "looked up before"
    return _buffered(size, lambda start, length: folder.read_range(store, name, start, length))


def _buffered(size: int, read: Callable[[int, int], bytes]) -> io.BufferedReader:
    return io.BufferedReader(_Ranges(size, read), size or 1 if size <= _SMALL else _BUFFER)


class _Ranges(io.RawIOBase):
    """A file whose bytes are fetched as they are read."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._fetch(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """In one request, which a buffer's worth at a time would not be."""
        return self._fetch(self._size)

    def _fetch(self, length: int) -> bytes:
        length = min(length, self._size - self._at)
        if length <= 0:
            return b""
        data = self._read(self._at, length)
        self._at += len(data)
        return data


def _be_silent(_: object) -> None:
    """What a library makes of talk."""
