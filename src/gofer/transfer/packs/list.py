"""A listing of a store that shows the files of packed folders instead of the packs."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gofer.storage.base import ListsLevels, ObjectInfo
from gofer.transfer.packs.index import FOLDER, Packed
from gofer.transfer.packs.view import Packs, generation_of, is_inside, load

if TYPE_CHECKING:
    from gofer.storage.base import Store

# Finds keys with a part that may sort before `.gofer-pack`.
_EARLY = re.compile(r"(?:^|/)[\0-.]")

Found = Callable[[Packs], None]
Hidden = Callable[[str], None]


def info_of(folder: Packs, file: Packed) -> ObjectInfo:
    """The file as an object of a listing, with the metadata that a transfer writes."""
    seconds, rest = divmod(file.modified_ns, 1_000_000_000)
    words = {"mtime": f"{seconds}.{rest:09d}"}
    if file.mode & 0o100:
        words["mode"] = "100755"
    version = f"packed-{file.md5.hex()}"
    return ObjectInfo(folder.key(file), file.size, file.modified_ns / 1e9, file.md5, version, words)


class PackedListing:
    """Replaces packs in a raw listing by their files.

    `found` is called for each packed folder, `hidden` for each packed file that an object beside the packs
    replaces. The result is in key order, with one exception: in a packed folder, objects whose names sort
    before `.gofer-pack` come before all packed files.
    """

    def __init__(self, store: Store, found: Found, hidden: Hidden) -> None:
        self._store = store
        self._found = found
        self._hidden = hidden
        self._early: set[str] = set()

    def expand(self, raw: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        return self._expand(_Peekable(self._split(raw)), "")

    def merge(self, folder: Packs, inside: str, raw: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        """As `expand`, for a listing of `inside`, which is within the packed folder."""
        return self._joined(folder, folder.contents.under(_inner(folder, inside)), self.expand(raw))

    def merge_beginning(self, folder: Packs, text: str, raw: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        """As `merge`, for a listing of keys that begin with `text`."""
        return self._joined(folder, folder.contents.beginning(_inner(folder, text)), self.expand(raw))

    def _expand(self, raw: _Peekable, within: str) -> Iterator[ObjectInfo]:
        """Everything up to the end of the folder `within`."""
        while (item := raw.next) is not None:
            if isinstance(item, ObjectInfo):
                if within and not item.key.startswith(within):
                    return
                if _EARLY.search(item.key):
                    self._early.add(item.key)
                yield item
                raw.take()
                continue
            below = f"{item.root}/" if item.root else ""
            if not below.startswith(within):
                return
            raw.take()
            self._found(item)
            yield from self._joined(item, iter(item.contents), self._expand(raw, below))

    def _joined(
        self, folder: Packs, files: Iterator[Packed], loose: Iterator[ObjectInfo]
    ) -> Iterator[ObjectInfo]:
        """Both in key order; of equal keys the loose object."""
        previous = None
        packed = ((os.fsencode(info.key), 1, info) for info in (info_of(folder, file) for file in files))
        free = ((os.fsencode(info.key), 0, info) for info in loose)
        # Of equal keys, 0 sorts first: the loose object comes before the packed file.
        for _, is_packed, info in heapq.merge(free, packed):
            if is_packed and (info.key == previous or info.key in self._early):
                self._hidden(info.key)
                continue
            previous = info.key
            yield info

    def _split(self, raw: Iterator[ObjectInfo]) -> Iterator[ObjectInfo | Packs]:
        """The listing without the packs' objects; each packed folder takes the place of its newest index."""
        last: tuple[str, int] | None = None
        for info in raw:
            if FOLDER not in info.key:
                if last:
                    yield load(self._store, *last)
                    last = None
                yield info
                continue
            found = generation_of(info.key)
            if last and (found is None or found[0] != last[0]):
                yield load(self._store, *last)
                last = None
            if found:
                last = found
            elif not is_inside(info.key):
                yield info
        if last:
            yield load(self._store, *last)


def level(store: Store, prefix: str) -> Iterator[ObjectInfo | str]:
    """The contents of one folder of any store. Lists everything below it where the store cannot do better."""
    if isinstance(store, ListsLevels):
        yield from store.list_level(prefix)
        return
    skip = len(prefix) + 1 if prefix else 0
    last = None
    for info in store.list(prefix):
        name, slash, _ = info.key[skip:].partition("/")
        if not slash:
            yield info
        elif name != last:
            last = name
            yield name


def _inner(folder: Packs, key: str) -> bytes:
    return os.fsencode(key[len(folder.root) :].lstrip("/"))


class _Peekable:
    """An iterator that shows the next item as `next`, None at the end."""

    def __init__(self, items: Iterator[ObjectInfo | Packs]) -> None:
        self._items = items
        self.take()

    def take(self) -> None:
        self.next: ObjectInfo | Packs | None = next(self._items, None)
