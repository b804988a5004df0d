"""A store that shows the files of packed folders as if they were objects: for reading and deleting.

Code that reads through the Store contract, such as a download, a listing or a comparison, needs to know
nothing of packs.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gofer.errors import KeyNotFound
from gofer.storage.base import ListsBeginnings, ReadsInto, Streams, no_such_key
from gofer.transfer.packs.index import FOLDER, Packed
from gofer.transfer.packs.list import PackedListing, info_of, level
from gofer.transfer.packs.view import CHUNK, Packs, check_md5, is_inside, open_packed
from gofer.transfer.packs.write import forget

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from gofer.storage.base import ObjectInfo, Store


_BATCH = 1000
WINDOW = 2 << 20
MOST = 8
_AHEAD = 3


class PackView:
    """`store` with its packed folders below `top` shown as files. Blocks; any thread may use it.

    With `ahead`, packs are read in large windows, for callers that read many files of a pack.
    """

    def __init__(self, store: Store, top: str = "", *, ahead: bool = False) -> None:
        self.below = store
        self.url = store.url
        self._top = top
        self._folders: dict[str, Packs | None] = {}
        self._in_front: set[str] = set()
        self._listed: list[str] = []
        self._windows = Windows(store.get_range) if ahead else None

    def __repr__(self) -> str:
        return f"PackView({self.url!r})"

    def close(self) -> None:
        """Stop reading ahead."""
        if self._windows:
            self._windows.close()

    # -- reading

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        if is_inside(prefix):
            return
        listing = PackedListing(self.below, self._note, self._in_front.add)
        outer = self.enclosing(prefix)
        raw = self.below.list(prefix)
        yield from listing.merge(outer, prefix, raw) if outer else listing.expand(raw)
        self._listed.append(f"{prefix}/" if prefix else "")

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted({entry for entry in self.list_level(prefix) if isinstance(entry, str)}))

    def list_beginning(self, text: str) -> Iterator[ObjectInfo]:
        """Every file whose key begins with `text`, in key order."""
        folder = text.rpartition("/")[0]
        if isinstance(self.below, ListsBeginnings):
            raw = self.below.list_beginning(text)
        else:
            raw = (info for info in self.below.list(folder) if info.key.startswith(text))
        listing = PackedListing(self.below, self._note, self._in_front.add)
        outer = self.enclosing(text)
        found = listing.merge_beginning(outer, text, raw) if outer else listing.expand(raw)
        # A text such as `.g` also matches the packs' own objects, but not the files in them.
        return (info for info in found if info.key.startswith(text))

    def list_level(self, prefix: str = "") -> Iterator[ObjectInfo | str]:
        """The contents of the folder `prefix`: files, and the names of folders, in no particular order."""
        skip = len(prefix) + 1 if prefix else 0
        names = set()
        packed = self.enclosing(prefix)
        for entry in level(self.below, prefix):
            if entry == FOLDER:
                packed = self._folder(prefix) or packed
            else:
                names.add(entry if isinstance(entry, str) else entry.key[skip:])
                yield entry
        if packed:
            inside = os.fsencode(prefix[len(packed.root) :].lstrip("/"))
            yield from self._packed_level(packed, inside, names)

    def _packed_level(self, folder: Packs, inside: bytes, names: set[str]) -> Iterator[ObjectInfo | str]:
        """The contents of a packed folder that are not in `names` yet."""
        skip = len(inside) + 1 if inside else 0
        for file in folder.contents.under(inside):
            first, slash, _ = file.name[skip:].partition(b"/")
            name = os.fsdecode(first)
            if name and name not in names:
                names.add(name)
                yield name if slash else info_of(folder, file)

    def head(self, key: str) -> ObjectInfo | None:
        known = self._known(key)
        if known:
            return info_of(*known)
        found = self.below.head(key)
        if found:
            return found
        packed = self.find(key)
        return info_of(*packed) if packed else None

    def get(self, key: str) -> bytes:
        return self._reading(key, lambda: self.below.get(key), self._read)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._reading(
            key,
            lambda: self.below.get_range(key, start, length),
            lambda folder, file: _range(folder, file, start, length),
        )

    def _reading(
        self, key: str, plain: Callable[[], bytes], packed: Callable[[Packs, Packed], bytes]
    ) -> bytes:
        """Read an object, or a packed file; once more if its pack was replaced meanwhile."""
        found = self._known(key)
        if not found:
            try:
                return plain()
            except KeyNotFound:
                found = self.find(key)
                if not found:
                    raise
        try:
            return packed(*found)
        except KeyNotFound:
            self._forget(key)
        found = self.find(key)
        return packed(*found) if found else plain()

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        found = self._known(key)
        info = None if found else self.below.head(key)
        if info:
            return self._stream_below(key, start, info.size - start if length is None else length)
        found = found or self.find(key)
        if not found:
            raise no_such_key(self.url, key)
        folder, file = found
        return folder.read_range(file, start, file.size if length is None else length)

    def _stream_below(self, key: str, start: int, length: int) -> Iterator[bytes]:
        if isinstance(self.below, Streams):
            yield from self.below.get_stream(key, start, length)
            return
        for at in range(start, start + length, CHUNK):
            yield self.below.get_range(key, at, min(CHUNK, start + length - at))

    def read_into(self, key: str, start: int, buffer: memoryview, *, etag: str | None = None) -> int:
        """As the contract.

        `etag` is ignored for packed files: a pack is named by its content and never changes.
        """
        packed = self._known(key)
        if packed:
            return packed[0].read_into(packed[1], start, buffer)
        if isinstance(self.below, ReadsInto):
            return self.below.read_into(key, start, buffer, etag=etag)
        data = self.get_range(key, start, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, folder: Packs, file: Packed) -> bytes:
        if not self._windows:
            return folder.read(file)
        data = b"".join(
            self._windows.read(
                folder.pack_key(piece.pack),
                folder.contents.packs[piece.pack].size,
                piece.offset,
                piece.length,
            )
            for piece in folder.contents.pieces(file)
        )
        check_md5(folder, file, hashlib.md5(data, usedforsecurity=False).digest())
        return data

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Write an object beside the packs, which replaces a packed file of that name."""
        self.below.put(key, data, new=new)
        self._in_front.add(key)

    def copy(self, source: str, destination: str) -> None:
        packed = self._known(source) or (None if self.below.head(source) else self.find(source))
        if not packed:
            self.below.copy(source, destination)
        elif isinstance(self.below, Streams):
            self.below.put_stream(destination, packed[0].read_range(packed[1], 0, packed[1].size))
        else:
            self.below.put(destination, packed[0].read(packed[1]))
        self._in_front.add(destination)

    def delete(self, keys: Iterable[str]) -> int:
        """Remove files, packed or not; of a name that exists as both, both."""
        names: dict[str, set[bytes]] = {}
        count = 0
        rest = iter(keys)
        while batch := list(islice(rest, _BATCH)):
            loose = []
            for key in batch:
                found = self.find(key)
                if found:
                    names.setdefault(found[0].root, set()).add(found[1].name)
                if found and self._known(key):
                    count += 1
                else:
                    loose.append(key)
            count += self.below.delete(loose)
        for root, gone in names.items():
            # The index is about to change, so what is remembered of it is dropped.
            self._folders.pop(root)
            forget(self.below, root, gone)
        return count

    # -- packed folders

    def find(self, key: str) -> tuple[Packs, Packed] | None:
        """The packed file of that key, even if an object beside the packs replaces it."""
        for root in self._roots(key):
            folder = self._folder(root)
            if folder and (file := folder.contents.find(os.fsencode(key[len(root) :].lstrip("/")))):
                return folder, file
        return None

    def enclosing(self, prefix: str) -> Packs | None:
        """The packed folder that contains the folder `prefix`; None when there is none, or when it is
        `prefix`.
        """
        return next((found for root in self._roots(prefix) if (found := self._folder(root))), None)

    def _roots(self, key: str) -> Iterator[str]:
        """The folders that contain `key`, nearest first, up to `top`."""
        shortest = self._top.count("/") + 1 if self._top else 0
        parts = key.split("/")
        for length in range(len(parts) - 1, shortest - 1, -1):
            yield "/".join(parts[:length])

    def _folder(self, root: str) -> Packs | None:
        # A listing has found every packed folder below it, so an unknown folder there is not packed.
        if root not in self._folders and not self._is_listed(f"{root}/"):
            self._folders[root] = open_packed(self.below, root)
        return self._folders.get(root)

    def _note(self, folder: Packs) -> None:
        self._folders[folder.root] = folder

    def _is_listed(self, key: str) -> bool:
        return any(key.startswith(prefix) for prefix in self._listed)

    def _known(self, key: str) -> tuple[Packs, Packed] | None:
        """The packed file, when a listing has already shown that no object replaces it."""
        if key in self._in_front or not self._is_listed(key):
            return None
        return self.find(key)

    def _forget(self, key: str) -> None:
        """Drop what is known of the folders that contain the key, because it is out of date."""
        self._listed = [prefix for prefix in self._listed if not key.startswith(prefix)]
        for root in self._roots(key):
            self._folders.pop(root, None)


def _range(folder: Packs, file: Packed, start: int, length: int) -> bytes:
    first = start if start >= 0 else max(file.size + start, 0)
    return b"".join(folder.read_range(file, first, length))


class Windows:
    """`fetch(pack, start, length)` reads the store.

    Any thread may read; `close` ends the requests in progress.
    """

    def __init__(self, fetch: Callable[[str, int, int], bytes]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, int], Future[bytes]] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, pack: str, size: int, start: int, length: int) -> bytes:
        """Bytes of a pack that is `size` bytes long. Blocking."""
        first, last = start // WINDOW, (start + length - 1) // WINDOW
        parts = []
        for number in range(first, last + 1):
            data = self._window(pack, size, number).result()
            at = number * WINDOW
            parts.append(data[max(start - at, 0) : start + length - at])
        return b"".join(parts)

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _window(self, pack: str, size: int, number: int) -> Future[bytes]:
        with self._lock:
            # Read ahead only for a reader that came from the window before, or that begins a pack.
            is_sequential = number == 0 or (pack, number - 1) in self._held
            wanted = self._take(pack, size, number)
            for ahead in range(number + 1, number + 1 + _AHEAD if is_sequential else 0):
                if ahead * WINDOW < size:
                    self._take(pack, size, ahead)
            self._held.move_to_end((pack, number))
            while len(self._held) > MOST:
                self._held.popitem(last=False)
            return wanted

    def _take(self, pack: str, size: int, number: int) -> Future[bytes]:
        """The window. Requests it if it is not held, or if the last request failed."""
        held = self._held.get((pack, number))
        if held and not (held.done() and held.exception()):
            return held
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to load for a short command

            self._pool = ThreadPoolExecutor(_AHEAD + 1, "gofer-packs")
        start = number * WINDOW
        future = self._pool.submit(self._fetch, pack, start, min(WINDOW, size - start))
        self._held[pack, number] = future
        return future
