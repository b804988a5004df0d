"""Reads a packed folder of a store: finds its index, and reads the bytes of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import KeyNotFound, StoreError
from gofer.storage.base import ReadsInto
from gofer.transfer.packs.index import FOLDER, Index, Packed, Piece

if TYPE_CHECKING:
    from gofer.storage.base import Store

_INDEX = f"{FOLDER}/index"
_PACKS = f"{FOLDER}/packs"
CHUNK = 8 << 20


class Packs(NamedTuple):
    """The folder `root` of a store, according to its index number `generation`."""

    store: Store
    root: str
    generation: int
    contents: Index

    def pack_key(self, pack: int) -> str:
        return packs_key(self.root, self.contents.packs[pack].name)

    def read(self, file: Packed) -> bytes:
        """The whole file, checked by its MD5: one request, or one for each of its packs.

        KeyNotFound when its pack is gone because the folder was packed again; StoreError when its bytes are
        damaged.
        """
        data = b"".join(self.read_range(file, 0, file.size))
        check_md5(self, file, hashlib.md5(data, usedforsecurity=False).digest())
        return data

    def read_range(self, file: Packed, start: int, length: int) -> Iterator[bytes]:
        """At most `length` bytes of the file from `start`, not checked, in pieces of at most one pack."""
        for pack, offset, size in self._pieces(file, start, length):
            data = self.store.get_range(self.pack_key(pack), offset, size)
            if len(data) != size:
                raise _damaged(self, file)
            yield data

    def read_into(self, file: Packed, start: int, buffer: memoryview) -> int:
        """Fill `buffer` from `start`, not checked; return the number of bytes, fewer only at the end of the
        file.
        """
        at = 0
        for pack, offset, size in self._pieces(file, start, len(buffer)):
            into = buffer[at : at + size]
            if isinstance(self.store, ReadsInto):
                got = self.store.read_into(self.pack_key(pack), offset, into)
            else:
                data = self.store.get_range(self.pack_key(pack), offset, size)
                got = len(data)
                into[:got] = data
            if got != size:
                raise _damaged(self, file)
            at += size
        return at

    def _pieces(self, file: Packed, start: int, length: int) -> Iterator[Piece]:
        """The places of a part of the file."""
        end, at = min(start + length, file.size), 0
        for piece in self.contents.pieces(file):
            first, last = max(start, at), min(end, at + piece.length)
            if first < last:
                yield Piece(piece.pack, piece.offset + first - at, last - first)
            at += piece.length

    def key(self, file: Packed) -> str:
        """The key that the file would have without packs."""
        return join(self.root, text(file.name))


def check_md5(folder: Packs, file: Packed, md5: bytes) -> None:
    if md5 != file.md5:
        raise _damaged(folder, file)


def _damaged(folder: Packs, file: Packed) -> StoreError:
    return StoreError(
        f"the pack that holds {folder.key(file)!r} in {folder.store.url} is damaged",
        hint="`gofer u --pack --checksum` of that folder sends it again",
    )


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name


def text(name: bytes) -> str:
    """A name as Python reads it from the file system."""
    return name.decode("utf-8", "surrogateescape")


def packs_key(root: str, name: str = "") -> str:
    return join(join(root, _PACKS), name)


def index_key(root: str, generation: int | None = None) -> str:
    return join(join(root, _INDEX), "" if generation is None else f"{generation:06d}")


def is_inside(key: str) -> bool:
    """Whether the object belongs to the packs and indexes of a packed folder."""
    return FOLDER in key.split("/")


def generation_of(key: str) -> tuple[str, int] | None:
    """(root, number) when the key is that of an index; otherwise None."""
    head, mark, number = f"/{key}".rpartition(f"/{_INDEX}/")
    return (head[1:], int(number)) if mark and number.isascii() and number.isdigit() else None


def generations(store: Store, root: str) -> list[int]:
    """The numbers of the existing indexes, in order."""
    found = (generation_of(info.key) for info in store.list(index_key(root)))
    return sorted(number[1] for number in found if number and number[0] == root)


def open_packed(store: Store, root: str) -> Packs | None:
    """The packed folder as it is now; None when it is not packed. StoreError when its index is damaged."""
    for _ in range(3):
        known = generations(store, root)
        if not known:
            return None
        try:
            return load(store, root, known[-1])
        except KeyNotFound:
            continue  # the index was replaced between the listing and the read
    raise StoreError(f"the index of {root!r} in {store.url} changes faster than it can be read")


def load(store: Store, root: str, generation: int) -> Packs:
    """The folder according to that index; KeyNotFound when the index is gone."""
    key = index_key(root, generation)
    return Packs(store, root, generation, Index.decode(store.get(key), f"{key!r} in {store.url}"))


def find_packed(store: Store, key: str, top: str = "") -> Packs | None:
    """The packed folder that contains `key` or is `key`, searched from `key` up to the folder `top`."""
    parts = key.split("/") if key else []
    shortest = len(top.split("/")) if top else 0
    for length in range(len(parts), shortest - 1, -1):
        found = open_packed(store, "/".join(parts[:length]))
        if found:
            return found
    return None
