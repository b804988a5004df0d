"""Store a folder as packs, or take names out of one. The packs go first and the index last, so that readers
always see a whole folder.

Two writers at once both succeed: an index is created, never replaced, and who comes second reads the first
one's and adds to it. A killed writer leaves packs that no index knows; the next one uses or removes them.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import KeyExists, KeyNotFound, StoreError
from gofer.transfer.packs.fill import Filler, LocalFile, md5_of
from gofer.transfer.packs.index import Index, Pack, Packed
from gofer.transfer.packs.merge import PackUpdate, draft, merge
from gofer.transfer.packs.view import (
    generation_of,
    generations,
    index_key,
    is_inside,
    join,
    load,
    open_packed,
    packs_key,
    text,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gofer.storage.base import Store

_EMPTY = Index(())
_RACES = 20
_SAME_NS = 2000
_STALE_S = 86400.0


class PackedContents(NamedTuple):
    """What lies under the folder: its index, the packs there are with their age, objects beside them, and
    folders in it that are packed by themselves."""

    contents: Index
    generations: tuple[int, ...]
    packs: dict[str, tuple[int, float]]
    loose: set[str]
    inner: set[str]


class Written(NamedTuple):
    """What packing did. `bytes` are those of the files, `sent_bytes` of the packs that had to be sent."""

    files: int
    bytes: int
    skipped: int
    changed: list[str]
    failed: list[tuple[str, str]]
    sent_packs: int
    sent_bytes: int


def survey(store: Store, root: str) -> PackedContents:
    """One listing of the folder, and its index. Blocks."""
    for _ in range(_RACES):
        numbers, packs, loose, inner = [], {}, set(), set()
        for info in store.list(root):
            found = generation_of(info.key)
            if found and found[0] == root:
                numbers.append(found[1])
            elif found:
                inner.add(found[0])
            elif info.key.startswith(packs_key(root) + "/"):
                packs[info.key.rpartition("/")[2]] = (info.size, info.modified)
            elif not is_inside(info.key) and info.key != root:
                loose.add(info.key)
        try:
            contents = load(store, root, max(numbers)).contents if numbers else _EMPTY
        except KeyNotFound:
            continue
        return PackedContents(contents, tuple(sorted(numbers)), packs, loose, inner)
    raise StoreError(f"the index of {root!r} in {store.url} changes faster than it can be read")


class Prepared(NamedTuple):
    """What packing some files will do: nothing was changed yet."""

    files: Sequence[LocalFile]
    held: PackedContents
    drawn: PackUpdate


def prepare(store: Store, root: str, files: Sequence[LocalFile], *, checksum: bool = False) -> Prepared:
    """Compare the files with the packed folder, by size and time, or with `checksum` by their bytes."""

    def same(file: LocalFile, entry: Packed) -> bool:
        if file.size != entry.size:
            return False
        if checksum:
            return md5_of(file.path) == entry.md5
        # A time that came through a float on its way here is right to the microsecond.
        return abs(file.modified_ns - entry.modified_ns) < _SAME_NS

    held = survey(store, root)
    return Prepared(files, held, draft(held.contents, files, same))


def pack(
    store: Store,
    root: str,
    prepared: Prepared,
    *,
    jobs: int = 4,
    progress: Callable[[int, int], None] | None = None,
) -> Written:
    """Add the files to the packed folder `root`, making it one if need be. Blocks.

    Files the folder has and `files` has not are kept. What would hide one of `files` is removed: objects
    beside the packs, and packed files of a folder within. `progress` is told (files, bytes) as they are read.
    A file that cannot be read, or changes meanwhile, is told of and left as it was in the folder.
    """
    files, held, drawn = prepared
    sender = _Sender(store, root, held, jobs, progress)
    filler = Filler()
    packs = sender.send(filler, drawn.send)
    if filler.files:
        _commit(store, root, held, lambda index: merge(index, (), packs, filler.files), packs)
    unsent = {*filler.changed, *(path for path, _ in filler.failed)}
    _uncover(store, held, {join(root, text(file.name)) for file in files if file.path not in unsent})
    return Written(
        len(filler.files) - drawn.moved,
        sum(file.size for file in filler.files),
        drawn.unchanged + drawn.moved,
        filler.changed,
        filler.failed,
        sender.sent_packs,
        sender.sent_bytes,
    )


def _uncover(store: Store, held: PackedContents, keys: set[str]) -> None:
    """Take away what would stand in front of the packed files of these keys."""
    hiding = held.loose & keys
    if hiding:
        store.delete(sorted(hiding))
    for inner in held.inner:
        names = {os.fsencode(key[len(inner) + 1 :]) for key in keys if key.startswith(f"{inner}/")}
        if names:
            forget(store, inner, names)


def forget(store: Store, root: str, names: Collection[bytes]) -> None:
    """Take names out of a packed folder; packs that hold nothing else go too, and with the last name all."""
    held = survey(store, root)
    _commit(store, root, held, lambda index: merge(index, names, (), ()))


class _Sender:
    """Puts packs into the store, a few at once, and not those that are there."""

    def __init__(
        self,
        store: Store,
        root: str,
        held: PackedContents,
        jobs: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._store = store
        self._root = root
        self._held = held
        self._jobs = jobs
        self._progress = progress
        self.sent_packs = 0
        self.sent_bytes = 0

    def send(self, filler: Filler, files: Sequence[LocalFile]) -> list[Pack]:
        """The packs of the files, in order; StoreError when one could not be sent."""
        room = BoundedSemaphore(self._jobs)
        sent: list[Future[tuple[Pack, bool]]] = []
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._jobs) as pool:
            told = 0
            for data in filler.packs(files):
                room.acquire()
                sent.append(pool.submit(self._put, data))
                sent[-1].add_done_callback(lambda _: room.release())
                if self._progress:
                    self._progress(len(filler.files) - told, len(data))
                    told = len(filler.files)
                if any(one.done() and one.exception() for one in sent[-2 * self._jobs :]):
                    break
        if self._progress:
            self._progress(len(filler.files) - told, 0)
        done = [one.result() for one in sent]
        self.sent_packs = sum(was_sent for _, was_sent in done)
        self.sent_bytes = sum(pack.size for pack, was_sent in done if was_sent)
        return [pack for pack, _ in done]

    def _put(self, data: bytes) -> tuple[Pack, bool]:
        pack = Pack(hashlib.sha256(data).hexdigest(), len(data))
        if self._held.packs.get(pack.name, (-1, 0.0))[0] == pack.size:
            return pack, False
        self._store.put(packs_key(self._root, pack.name), data)
        return pack, True


def _commit(
    store: Store, root: str, held: PackedContents, change: Callable[[Index], Index], own: Sequence[Pack] = ()
) -> None:
    """Make the changed index the folder's, then remove what it no longer needs. `own` packs are new in it."""
    base, numbers = held.contents, list(held.generations)
    for _ in range(_RACES):
        index = change(base)
        number = max(numbers, default=0) + 1
        if not len(index) or _create(store, root, number, index):
            break
        _check_packs(store, root, own)
        newest = open_packed(store, root)
        base = newest.contents if newest else _EMPTY
        numbers += [newest.generation] if newest else []
    else:
        raise StoreError(f"the index of {root!r} in {store.url} changes faster than it can be written")
    used = {pack.name for pack in index.packs}
    old = {pack.name for pack in [*held.contents.packs, *base.packs]} - used
    before = time.time() - _STALE_S
    old |= {name for name, (_, modified) in held.packs.items() if name not in used and modified < before}
    # Indexes first: one that is there has all its packs.
    store.delete([index_key(root, one) for one in set(numbers)])
    store.delete([packs_key(root, name) for name in sorted(old)])


def _create(store: Store, root: str, number: int, index: Index) -> bool:
    """Whether the index is the folder's now. Once a higher number is there a lower one may be free again, and
    counts for nothing."""
    try:
        store.put(index_key(root, number), index.encode(), new=True)
    except KeyExists:
        return False
    if max(generations(store, root), default=0) <= number:
        return True
    store.delete([index_key(root, number)])
    return False


def _check_packs(store: Store, root: str, packs: Sequence[Pack]) -> None:
    """Another writer may have removed a pack that was there and that this one counted on."""
    for pack in packs:
        if store.head(packs_key(root, pack.name)) is None:
            raise StoreError(
                f"somebody else packed {root!r} in {store.url} at the same time",
                hint="give the command again",
            )
