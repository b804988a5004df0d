"""One folder on its way into a snapshot: what is known from last time, what must be read, the listing."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Callable

from gofer.agent.manifest import decode_name, encode_name
from gofer.snapshot.reading import Reading, Row
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
)
from gofer.snapshot.walk import Folder, odd_kind
from gofer.snapshot.writing import to_json


class Draft:
    """Rows and signatures of one folder by name. `unread` are the names whose contents must be read."""

    __slots__ = ("_odd", "_rows", "_signatures", "folder", "unread")

    def __init__(self, folder: Folder, has: Callable[[str], bool]) -> None:
        """Last time's rows are kept where the file is unchanged and the store `has` its contents."""
        self.folder = folder
        values = iter(folder.values)
        self._signatures: dict[bytes, Signature] = dict(
            zip(folder.files, zip(*[values] * FIELDS, strict=True), strict=True)
        )
        self._odd = {name: kind for name, sig in self._signatures.items() if (kind := odd_kind(sig[4]))}
        self._rows: dict[bytes, Row] = self._known_rows(has) if folder.record else {}
        self.unread = [name for name in folder.files if name not in self._rows and name not in self._odd]

    def _known_rows(self, has: Callable[[str], bool]) -> dict[bytes, Row]:
        folder, record = self.folder, self.folder.record
        assert record is not None
        now = dict(zip(folder.files, unpack_signatures(pack_signatures(folder.values)), strict=True))
        then = dict(zip(split_names(record.files), unpack_signatures(record.signatures), strict=True))
        rows: dict[bytes, Row] = {}
        for encoded, *row in json.loads(record.listing):
            name = decode_name(encoded)
            if name in now and now[name] == then.get(name) and (row[0] == "l" or all(map(has, row[2:]))):
                rows[name] = row
        return rows

    def signature(self, name: bytes) -> Signature:
        """What the file looked like when it was last looked at."""
        return self._signatures[name]

    def set(self, name: bytes, reading: Reading) -> None:
        """Take what was read; without a row the name is dropped."""
        if reading.row is None or reading.signature is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = reading.row
            self._signatures[name] = reading.signature

    def blobs(self) -> list[str]:
        """The hashes of all contents."""
        return [str(blob) for row in self._rows.values() if row[0] != "l" for blob in row[2:]]

    def finish(self, began_ns: int) -> Record:
        """The record of the folder, for a pass that began at `began_ns`."""
        rows, folder = self._rows, self.folder
        listing = to_json([[encode_name(name), *rows[name]] for name in sorted(rows)])
        sizes = [(int(row[1]), name) for name, row in rows.items() if row[0] != "l"]
        kept = [value for name in folder.files for value in guard(self._signatures[name], began_ns)]
        return Record(
            incoming=folder.incoming,
            rules=folder.rules,
            files=join_names(folder.files),
            signatures=pack_signatures(kept),
            folders=join_names(folder.folders),
            skipped=join_names([name for name, is_folder in folder.skipped.items() if not is_folder]),
            skipped_folders=join_names([name for name, is_folder in folder.skipped.items() if is_folder]),
            only=join_names(folder.only),
            odd=tuple(self._odd.items()),
            listing=listing,
            digest=hashlib.sha256(listing).digest(),
            entries=len(rows),
            size=sum(size for size, _ in sizes),
            biggest=tuple(heapq.nlargest(BIGGEST, sizes)),
        )
