"""One folder of a new snapshot: what is known from last time, what must be read, and its listing. Also the
other objects that the store gets for a snapshot: its manifest, and the times of its files.

gofer.core.code.manifest and gofer.core.code.file_times decode these objects.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gofer.core.code.file_times import FileTimes, Stamp, encode
from gofer.core.code.manifest import FORMAT, VERSION
from gofer.core.code.snapshot_names import decode_name, encode_name
from gofer.snapshot.file_reader import FileReading, Row
from gofer.snapshot.statcache import (
    BIGGEST,
    FIELDS,
    Record,
    Signature,
    guard,
    join_names,
    pack_signatures,
    split_names,
    unpack_signatures,
    unpack_values,
)
from gofer.snapshot.walk import WalkedFolder, odd_kind

if TYPE_CHECKING:
    from gofer.core.code.file_times import Stamp
    from gofer.snapshot.walk import WalkedFolder

_MODE = 4  # the index of the mode in a signature; the modification time is first


def encode_times(
    snapshot_id: str,
    folders: Sequence[WalkedFolder],
    records: Mapping[str, Record],
    read: Mapping[str, Sequence[Stamp]],
) -> bytes:
    """The object that a node reads. `read` are the stamps of the folders whose files were read again."""
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


def to_json(value: object) -> bytes:
    """The only JSON encoder of snapshots, so that equal folders have equal hashes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def write_manifest(
    folders: Sequence[tuple[bytes, bytes]], packs: Iterable[str], *, files: int, size: int
) -> bytes:
    """The manifest of (path, listing's sha256) pairs, in order; `files` and `size` are for people only."""
    return to_json(
        {
            "format": FORMAT,
            "version": VERSION,
            "files": files,
            "bytes": size,
            "folders": [[encode_name(path) if path else "", listing.hex()] for path, listing in folders],
            "packs": sorted(packs),
        }
    )


class FolderDraft:
    """Rows and signatures of one folder, by name. `unread` are the names whose contents must be read."""

    __slots__ = ("_odd", "_rows", "_signatures", "folder", "unread")

    def __init__(self, folder: WalkedFolder, listing: bytes | None, has: Callable[[str], bool]) -> None:
        """Keep the rows of the last `listing` for files that are unchanged and whose contents the store
        `has`.
        """
        self.folder = folder
        record = folder.record
        files, values = folder.files, folder.values
        if record and folder.unchanged:
            files, values = split_names(record.files), unpack_values(record.signatures)
        grouped = zip(*[iter(values)] * FIELDS, strict=True)
        self._signatures: dict[str, Signature] = dict(zip(files, grouped, strict=True))
        self._odd = {name: kind for name, sig in self._signatures.items() if (kind := odd_kind(sig[4]))}
        self._rows: dict[str, Row] = {}
        if record and listing is not None:
            same = _same_names(record, files, values)
            self._rows = {name: row for name, row in _parse(listing) if name in same and _is_had(row, has)}
        self.unread = [name for name in files if name not in self._rows and name not in self._odd]

    def signature(self, name: str) -> Signature:
        """The signature of the file when it was last seen."""
        return self._signatures[name]

    def row(self, name: str) -> Row | None:
        """The row that was read or remembered; None when there is none."""
        return self._rows.get(name)

    def set(self, name: str, reading: FileReading) -> None:
        """Store the result of reading a file; a result without a row removes the name."""
        if reading.row is None or reading.signature is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = reading.row
            self._signatures[name] = reading.signature

    def blobs(self) -> list[str]:
        """The hashes of all contents of the folder's files."""
        return [str(blob) for row in self._rows.values() if row[0] != "l" for blob in row[2:]]

    def stamps(self) -> list[Stamp]:
        """Modification time and mode of each file and link, in the order of the listing."""
        signed = ((name, self._signatures[name]) for name in self._rows)
        return in_listing_order((name, (signature[0], signature[4])) for name, signature in signed)

    def listing(self) -> bytes:
        """The folder's listing, sorted by the bytes of the names."""
        rows = sorted((os.fsencode(name), row) for name, row in self._rows.items())
        return to_json([[encode_name(name), *row] for name, row in rows])

    def record(self, listing: bytes, began_ns: int) -> Record:
        """The record of the folder, for a read that began at `began_ns`."""
        folder = self.folder
        sizes = [(int(row[1]), name) for name, row in self._rows.items() if row[0] != "l"]
        kept = [value for sig in self._signatures.values() for value in guard(sig, began_ns)]
        return Record(
            incoming=folder.incoming,
            rules=folder.rules,
            files=join_names(list(self._signatures)),
            signatures=pack_signatures(kept),
            folders=join_names(folder.folders),
            skipped=join_names([name for name, is_folder in folder.skipped.items() if not is_folder]),
            skipped_folders=join_names([name for name, is_folder in folder.skipped.items() if is_folder]),
            only=join_names(folder.only),
            odd=tuple(self._odd.items()),
            digest=hashlib.sha256(listing).digest(),
            entries=len(self._rows),
            size=sum(size for size, _ in sizes),
            biggest=tuple(heapq.nlargest(BIGGEST, sizes)),
        )


def _same_names(record: Record, files: list[str], values: list[int]) -> set[str]:
    """The files whose signature has not changed since last time."""
    then = dict(zip(split_names(record.files), unpack_signatures(record.signatures), strict=True))
    now = zip(files, unpack_signatures(pack_signatures(values)), strict=True)
    return {name for name, signature in now if then.get(name) == signature}


def _parse(listing: bytes) -> list[tuple[str, Row]]:
    return [(os.fsdecode(decode_name(name)), row) for name, *row in json.loads(listing)]


def _is_had(row: Row, has: Callable[[str], bool]) -> bool:
    return row[0] == "l" or all(has(str(blob)) for blob in row[2:])
