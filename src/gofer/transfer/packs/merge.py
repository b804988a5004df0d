"""Makes a new index: decides which files stay, which are sent, and which packs are kept. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gofer.transfer.packs.fill import PACK_BYTES, LocalFile
from gofer.transfer.packs.index import Index, Pack, Packed

# More packs than this that are less than a quarter full are packed again, into fewer ones.
_MOST_SMALL = 8


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
