"""One folder of a new snapshot: what is known from last time, what must be read, and its listing."""

from __future__ import annotations

import hashlib
import heapq
import json
import os
from collections.abc import Callable

from gofer.core.file_times import Stamp
from gofer.core.snapshot_names import decode_name, encode_name
from gofer.snapshot.encode import to_json
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
from gofer.snapshot.times import in_listing_order
from gofer.snapshot.walk import WalkedFolder, odd_kind


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
