"""Times and permission bits of a snapshot's files, from the walk, for gofer.core.file_times."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gofer.snapshot.statcache import FIELDS, Record, split_names, unpack_values

if TYPE_CHECKING:
    from gofer.core.file_times import Stamp
    from gofer.snapshot.walk import WalkedFolder

_MODE = 4  # the index of the mode in a signature; the modification time is first


def encode_times(
    snapshot_id: str,
    folders: Sequence[WalkedFolder],
    records: Mapping[str, Record],
    read: Mapping[str, Sequence[Stamp]],
) -> bytes:
    """The object that a node reads. `read` are the stamps of the folders whose files were read again."""
    from gofer.core.file_times import FileTimes, encode

    entries: list[Stamp] = []
    for folder in folders:
        stamps = read.get(folder.path)
        entries += _remembered(records[folder.path]) if stamps is None else stamps
    return encode(snapshot_id, FileTimes([folder.stamp for folder in folders if folder.path], entries))


def in_listing_order(stamps: Iterable[tuple[str, Stamp]]) -> list[Stamp]:
    """Stamps of files by name, in the order of a listing, which is that of the names' bytes."""
    pairs = list(stamps)
    if all(name.isascii() for name, _ in pairs):  # then names sort as their bytes do
        return [stamp for _, stamp in sorted(pairs)]
    return [stamp for _, stamp in sorted((os.fsencode(name), stamp) for name, stamp in pairs)]


def _remembered(record: Record) -> list[Stamp]:
    """The stamps of an unchanged folder, from its record."""
    values = unpack_values(record.signatures)
    stamps = zip(values[::FIELDS], values[_MODE::FIELDS], strict=True)
    # Sockets, pipes and devices have signatures, but are not in the listing.
    odd = dict(record.odd)
    named = zip(split_names(record.files), stamps, strict=True)
    return in_listing_order(pair for pair in named if pair[0] not in odd)
