"""Stores a folder as packs, or removes files from one. Writes the packs first and the index last, so that
readers always see a complete folder.

Two writers at once both succeed: an index is created, never replaced. The second writer reads the index of
the first one and adds to it. A killed writer leaves packs that are in no index; the next writer uses or
removes them.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import KeyExists, KeyNotFound, StoreError
from gofer.transfer.packs.fill import PACK_BYTES, Filler, LocalFile, md5_of
from gofer.transfer.packs.index import Index, Pack, Packed
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

# More packs than this that are less than a quarter full are packed again, into fewer ones.
_MOST_SMALL = 8

_EMPTY = Index(())
_RACES = 20
_SAME_NS = 2000
_STALE_S = 86400.0


class PackUpdate(NamedTuple):
    """`send` are the files to pack, `unchanged` counts those that stay, `moved` the unchanged ones among
    `send`.
    """

    send: list[LocalFile]
    unchanged: int
    moved: int


def draft(index: Index, files: Sequence[LocalFile], same: Callable[[LocalFile, Packed], bool]) -> PackUpdate:
    """The files that must be sent, sorted by name.

    An unchanged file (`same` as its entry) is also sent when most of its pack is unused, or when its pack is
    one of too many small ones.
    """
    ordered = sorted(files)
    held: dict[bytes, Packed] = {}
    for file in ordered:
        entry = index.find(file.name)
        if entry and same(file, entry):
            held[file.name] = entry
    replaced = {file.name for file in ordered if file.name not in held}
    thin = _thin_packs(index, replaced)
    moved = {name for name, entry in held.items() if any(p.pack in thin for p in index.pieces(entry))}
    send = [file for file in ordered if file.name in replaced or file.name in moved]
    return PackUpdate(send, len(held) - len(moved), len(moved))


def _thin_packs(index: Index, replaced: Collection[bytes]) -> set[int]:
    live = [0] * len(index.packs)
    for file in index:
        if file.name not in replaced:
            for piece in index.pieces(file):
                live[piece.pack] += piece.length
    # Less than half in use.
    thin = {at for at, pack in enumerate(index.packs) if live[at] * 2 < pack.size}
    small = {at for at, pack in enumerate(index.packs) if pack.size * 4 < PACK_BYTES}
    return thin | small if len(small) > _MOST_SMALL else thin


def merge(index: Index, drop: Collection[bytes], packs: Sequence[Pack], files: Iterable[Packed]) -> Index:
    """A new index: `index` without the files that are dropped or replaced, and with `files` in `packs`."""
    new = list(files)
    gone = {*drop, *(file.name for file in new)}
    kept = [file for file in index if file.name not in gone]
    used = sorted({piece.pack for file in kept for piece in index.pieces(file)})
    # Both packs of a file that is in two packs are in use, so the two stay neighbours in the list.
    number: Mapping[int, int] = {old: at for at, old in enumerate(used)}
    return Index(
        [*(index.packs[old] for old in used), *packs],
        [
            *(file._replace(pack=number.get(file.pack, 0)) for file in kept),
            *(file._replace(pack=file.pack + len(used)) for file in new),
        ],
    )


class PackedContents(NamedTuple):
    """What is in the folder: its index, the existing packs with their age, objects beside the packs, and
    packed folders inside it.
    """

    contents: Index
    generations: tuple[int, ...]
    packs: dict[str, tuple[int, float]]
    loose: set[str]
    inner: set[str]


class Written(NamedTuple):
    """The result of packing. `bytes` counts the files, `sent_bytes` the packs that were sent."""

    files: int
    bytes: int
    skipped: int
    changed: list[str]
    failed: list[tuple[str, str]]
    sent_packs: int
    sent_bytes: int


def survey(store: Store, root: str) -> PackedContents:
    """List the folder and load its index. Blocks."""
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
    """What packing will do. Nothing has been changed yet."""

    files: Sequence[LocalFile]
    held: PackedContents
    drawn: PackUpdate


def prepare(store: Store, root: str, files: Sequence[LocalFile], *, checksum: bool = False) -> Prepared:
    """Compare the files with the packed folder by size and time, or with `checksum` by content. Blocks."""

    def same(file: LocalFile, entry: Packed) -> bool:
        if file.size != entry.size:
            return False
        if checksum:
            return md5_of(file.path) == entry.md5
        # A time that was converted from a float is exact only to the microsecond.
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
    """Add the files to the packed folder `root`; create it if needed. Blocks.

    Files of the folder that are not in `files` stay. Objects beside the packs, and packed files of a folder
    inside, that would hide one of `files` are removed. `progress` is called with (files, bytes) as they are
    read. A file that cannot be read or changes meanwhile is reported and stays as it was in the folder.
    """
    files, held, update = prepared
    sender = _Sender(store, root, held, jobs, progress)
    filler = Filler()
    packs = sender.send(filler, update.send)
    if filler.files:
        _commit(store, root, held, lambda index: merge(index, (), packs, filler.files), packs)
    unsent = {*filler.changed, *(path for path, _ in filler.failed)}
    _uncover(store, held, {join(root, text(file.name)) for file in files if file.path not in unsent})
    return Written(
        len(filler.files) - update.moved,
        sum(file.size for file in filler.files),
        update.unchanged + update.moved,
        filler.changed,
        filler.failed,
        sender.sent_packs,
        sender.sent_bytes,
    )


def _uncover(store: Store, held: PackedContents, keys: set[str]) -> None:
    """Remove what would hide the packed files of these keys."""
    hiding = held.loose & keys
    if hiding:
        store.delete(sorted(hiding))
    for inner in held.inner:
        names = {os.fsencode(key[len(inner) + 1 :]) for key in keys if key.startswith(f"{inner}/")}
        if names:
            forget(store, inner, names)


def forget(store: Store, root: str, names: Collection[bytes]) -> None:
    """Remove files from a packed folder, and packs without files; with the last file, everything."""
    held = survey(store, root)
    _commit(store, root, held, lambda index: merge(index, names, (), ()))


class _Sender:
    """Writes packs to the store, several at once, except those that exist."""

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
        """The packs of the files, in order; StoreError when one could not be sent. Blocking."""
        free_slots = BoundedSemaphore(self._jobs)
        sent: list[Future[tuple[Pack, bool]]] = []
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._jobs) as pool:
            reported = 0
            for data in filler.packs(files):
                free_slots.acquire()
                sent.append(pool.submit(self._put, data))
                sent[-1].add_done_callback(lambda _: free_slots.release())
                if self._progress:
                    self._progress(len(filler.files) - reported, len(data))
                    reported = len(filler.files)
                if any(future.done() and future.exception() for future in sent[-2 * self._jobs :]):
                    break
        if self._progress:
            self._progress(len(filler.files) - reported, 0)
        done = [future.result() for future in sent]
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
    """Make the changed index current, then remove what it does not need.

    `own` are the packs new in this change.
    """
    base, numbers = held.contents, list(held.generations)
    for _ in range(_RACES):
        index = change(base)
        number = max(numbers, default=0) + 1
        # An empty index is not written: the folder is then no longer packed.
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
    # A young unused pack may belong to a writer that has not written its index yet.
    old |= {name for name, (_, modified) in held.packs.items() if name not in used and modified < before}
    # Remove indexes first, so that every index that exists has all its packs.
    store.delete([index_key(root, number) for number in set(numbers)])
    store.delete([packs_key(root, name) for name in sorted(old)])


def _create(store: Store, root: str, number: int, index: Index) -> bool:
    """Create an index; return whether it is current.

    When a higher number exists, a lower one may be free again, because its index was removed. An index with
    such a number does not count, so it is removed.
    """
    try:
        store.put(index_key(root, number), index.encode(), new=True)
    except KeyExists:
        return False
    if max(generations(store, root), default=0) <= number:
        return True
    store.delete([index_key(root, number)])
    return False


def _check_packs(store: Store, root: str, packs: Sequence[Pack]) -> None:
    """StoreError when another writer has removed a pack that existed before and that this change uses."""
    for pack in packs:
        if store.head(packs_key(root, pack.name)) is None:
            raise StoreError(
                f"another process packed {root!r} in {store.url} at the same time",
                hint="repeat the command",
            )
