"""A folder of a store, packed or not, at the time of reading: names, sizes, and where the bytes are.

It holds no store and no connection, so it can be kept, forked and pickled. The caller of `read` passes the
store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import KeyNotFound
from gofer.transfer.packs.index import Index, Packed
from gofer.transfer.packs.view import Packs, generation_of, is_inside, join, load

if TYPE_CHECKING:
    from gofer.storage.base import Store

_RACES = 3


class FolderOfPacks(NamedTuple):
    """Names are paths below `root`. `loose` are the files beside the packs, with their sizes."""

    root: str
    generation: int
    contents: Index
    loose: Mapping[str, int]

    def size(self, name: str) -> int | None:
        """The size of the file; None when there is no file of that name."""
        if name in self.loose:
            return self.loose[name]
        file = self._find(name)
        return file.size if file else None

    def names(self, inside: str = "") -> Iterator[str]:
        """The names of all files in the folder `inside`, in no particular order."""
        start = f"{inside}/" if inside else ""
        yield from (name for name in self.loose if name.startswith(start))
        for file in self.contents.under(os.fsencode(inside)):
            name = os.fsdecode(file.name)
            if name.startswith(start) and name not in self.loose:
                yield name

    def read(self, store: Store, name: str) -> bytes:
        """The whole file.

        Packed files are checked by their MD5. KeyNotFound when the file does not exist (any longer).
        """
        file = None if name in self.loose else self._find(name)
        return self._packs(store).read(file) if file else store.get(join(self.root, name))

    def read_range(self, store: Store, name: str, start: int, length: int) -> bytes:
        """A part of the file, not checked; KeyNotFound as for `read`."""
        file = None if name in self.loose else self._find(name)
        if file is None:
            return store.get_range(join(self.root, name), start, length)
        return b"".join(self._packs(store).read_range(file, start, length))

    def _find(self, name: str) -> Packed | None:
        return self.contents.find(os.fsencode(name))

    def _packs(self, store: Store) -> Packs:
        return Packs(store, self.root, self.generation, self.contents)


def read_folder(store: Store, root: str) -> FolderOfPacks:
    """List the folder, and load its index if it is packed. Blocking. Empty when nothing is there."""
    for _ in range(_RACES):
        loose, newest = {}, 0
        skip = len(root) + 1 if root else 0
        for info in store.list(root):
            found = generation_of(info.key)
            if found and found[0] == root:
                newest = max(newest, found[1])
            elif not is_inside(info.key) and info.key != root:
                loose[info.key[skip:]] = info.size
        try:
            contents = load(store, root, newest).contents if newest else Index(())
        except KeyNotFound:
            continue  # another process replaced the index after the listing
        return FolderOfPacks(root, newest, contents, loose)
    raise KeyNotFound(f"the index of {root!r} in {store.url} has been removed", hint="try again")
