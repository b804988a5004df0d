"""A view of a store that shows logs in parts as complete files.

While a run writes, an object store holds its log in parts (see gofer.node.uploader.run_folder). The parts
overlap briefly when small ones are replaced by a larger one. Readers of run folders need not know about this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gofer.core import run_layout as names
from gofer.errors import KeyNotFound
from gofer.storage.base import ObjectInfo

if TYPE_CHECKING:
    from gofer.storage.base import Store

T = TypeVar("T")

# Parts may be replaced while they are read, but rarely twice in a row.
_TRIES = 4


class _Part(NamedTuple):
    start: int
    info: ObjectInfo

    @property
    def end(self) -> int:
        return self.start + self.info.size


class JoinedStore:
    """Methods that read join the parts; methods that write are those of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url
        self._known: dict[str, Sequence[_Part]] = {}

    def list_once(self, prefix: str) -> tuple[JoinedStore, Iterator[ObjectInfo]]:
        """A view of the same store, and `list(prefix)`. From the listing, the view learns which files are in
        parts, and reads them as they were then, without another listing. For a file whose parts are gone, it
        lists again.
        """
        view = JoinedStore(self._store)
        return view, _joined(self._store.list(prefix), view._known)

    def get(self, key: str) -> bytes:
        return self._whole_or_parts(
            key,
            lambda: self._store.get(key),
            lambda parts: self._read(parts, 0, parts[-1].end),
        )

    def get_range(self, key: str, start: int, length: int) -> bytes:
        def joined(parts: Sequence[_Part]) -> bytes:
            first = max(0, parts[-1].end + start) if start < 0 else start
            return self._read(parts, first, first + length)

        return self._whole_or_parts(key, lambda: self._store.get_range(key, start, length), joined)

    def head(self, key: str) -> ObjectInfo | None:
        if key in self._known:
            return _joined_info(key, self._known[key])
        found = self._store.head(key)
        if found is None and names.grows(key):
            parts = self._parts(key)
            # The complete file may have replaced its parts in the meantime.
            found = _joined_info(key, parts) if parts else self._store.head(key)
        return found

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects in key order. A file in parts appears at the position of its first part."""
        yield from _joined(self._store.list(prefix))

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        return (name for name in self._store.list_folders(prefix) if not name.endswith(".parts"))

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        self._store.put(key, data, new=new)

    def delete(self, keys: Iterable[str]) -> int:
        return self._store.delete(keys)

    def copy(self, source: str, destination: str) -> None:
        self._store.copy(source, destination)

    def _whole_or_parts(self, key: str, whole: Callable[[], T], joined: Callable[[Sequence[_Part]], T]) -> T:
        """Read the complete file or its parts; KeyNotFound when there is neither."""
        if not names.grows(key):
            return whole()
        if key in self._known:
            try:
                return joined(self._known[key])
            except KeyNotFound:
                del self._known[key]  # the complete file or a larger part has replaced them
        for _ in range(_TRIES - 1):
            try:
                return whole()
            except KeyNotFound:
                parts = self._parts(key)
            if parts:
                try:
                    return joined(parts)
                except KeyNotFound:
                    continue  # replaced since they were listed
        return whole()

    def _parts(self, key: str) -> Sequence[_Part]:
        folder = names.part_key(key, 0).rpartition("/")[0]
        return _cover(part for info in self._store.list(folder) if (part := _part(info)))

    def _read(self, parts: Sequence[_Part], start: int, end: int) -> bytes:
        pieces = []
        for part in parts:
            first, last = max(start, part.start), min(end, part.end)
            if first < last:
                pieces.append(self._store.get_range(part.info.key, first - part.start, last - first))
                start = last
        return b"".join(pieces)


def _part(info: ObjectInfo) -> _Part | None:
    found = names.parse_part(info.key)
    return None if found is None else _Part(found[1], info)


def _cover(parts: Iterable[_Part]) -> Sequence[_Part]:
    """The parts in order, up to the first gap, without parts that a larger one covers."""
    kept: list[_Part] = []
    for part in sorted(parts, key=lambda one: one.start):
        end = kept[-1].end if kept else 0
        if part.start > end:
            break
        if part.end > end:
            kept.append(part)
    return kept


def _joined_info(key: str, parts: Sequence[_Part]) -> ObjectInfo:
    return ObjectInfo(key, parts[-1].end, max(part.info.modified for part in parts))


def _joined(
    listing: Iterable[ObjectInfo], known: dict[str, Sequence[_Part]] | None = None
) -> Iterator[ObjectInfo]:
    """One entry for each key: the complete file if it exists, else the sum of its parts, which are added to
    `known`.
    """
    wholes: set[str] = set()
    owner, parts = "", list[_Part]()
    known = {} if known is None else known
    for info in listing:
        found = names.parse_part(info.key)
        if parts and (found is None or found[0] != owner):
            yield from _settled(owner, parts, known)
            parts = []
        if found is None:
            wholes.add(info.key)
            yield info
        elif found[0] not in wholes:
            owner = found[0]
            parts.append(_Part(found[1], info))
    yield from _settled(owner, parts, known)


def _settled(owner: str, parts: Sequence[_Part], known: dict[str, Sequence[_Part]]) -> Iterator[ObjectInfo]:
    covering = _cover(parts)
    if covering:
        known[owner] = covering
        yield _joined_info(owner, covering)
