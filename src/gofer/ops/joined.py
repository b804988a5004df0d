"""A store in which logs that went up in parts look like the files they are parts of.

While a run writes, its log is in the store as `<key>.parts/<start>` (see gofer.agent.mirror); parts may
overlap for a moment while small ones are merged. Readers of run folders need not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import KeyNotFound
from gofer.storage.base import ObjectInfo

if TYPE_CHECKING:
    from gofer.storage.base import Store

_MARK = ".parts/"


class _Part(NamedTuple):
    start: int
    info: ObjectInfo

    @property
    def end(self) -> int:
        return self.start + self.info.size


class JoinedStore:
    """The reading verbs join parts; the writing ones are the store's own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url

    def get(self, key: str) -> bytes:
        try:
            return self._store.get(key)
        except KeyNotFound:
            parts = self._parts(key)
            if not parts:
                raise
            return self._read(parts, 0, parts[-1].end)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            return self._store.get_range(key, start, length)
        except KeyNotFound:
            parts = self._parts(key)
            if not parts:
                raise
            first = max(0, parts[-1].end + start) if start < 0 else start
            return self._read(parts, first, first + length)

    def head(self, key: str) -> ObjectInfo | None:
        found = self._store.head(key)
        if found is not None:
            return found
        parts = self._parts(key)
        return _whole(key, parts) if parts else None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Wholes and joined parts; in key order, since the parts of a key sort right behind it."""
        yield from _joined(self._store.list(prefix))

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        return (name for name in self._store.list_folders(prefix) if not name.endswith(_MARK[:-1]))

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        self._store.put(key, data, new=new)

    def delete(self, keys: Iterable[str]) -> int:
        return self._store.delete(keys)

    def copy(self, source: str, destination: str) -> None:
        self._store.copy(source, destination)

    def _parts(self, key: str) -> Sequence[_Part]:
        """In order and without those that a larger one covers; empty when there are none."""
        return _cover(_part(info) for info in self._store.list(f"{key}{_MARK}"[:-1]))

    def _read(self, parts: Sequence[_Part], start: int, end: int) -> bytes:
        pieces = []
        for part in parts:
            first, last = max(start, part.start), min(end, part.end)
            if first < last:
                pieces.append(self._store.get_range(part.info.key, first - part.start, last - first))
                start = last
        return b"".join(pieces)


def _part(info: ObjectInfo) -> _Part:
    return _Part(int(info.key.rpartition("/")[2]), info)


def _cover(parts: Iterable[_Part]) -> list[_Part]:
    kept: list[_Part] = []
    for part in sorted(parts):
        if not kept or part.end > kept[-1].end:
            kept.append(part)
    return kept


def _whole(key: str, parts: Sequence[_Part]) -> ObjectInfo:
    return ObjectInfo(key, parts[-1].end, max(part.info.modified for part in parts))


def _joined(listing: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
    """One entry for each key: the whole where there is one, else what its parts amount to."""
    wholes: set[str] = set()
    key, parts = "", list[_Part]()
    for info in listing:
        owner, mark, _ = info.key.rpartition(_MARK)
        if parts and (not mark or owner != key):
            yield _whole(key, _cover(parts))
            parts = []
        if not mark:
            wholes.add(info.key)
            yield info
        elif owner not in wholes:
            key = owner
            parts.append(_part(info))
    if parts:
        yield _whole(key, _cover(parts))
