"""One file or object as both ends of a transfer speak of it, its order, and its form on disk.

Paths are relative to an end, with `/` between their parts; that of an end which is itself a file is empty.
Bytes that are not UTF-8 stand in them the way Python reads them from the file system (surrogates).
"""

from __future__ import annotations

import marshal
import os
from typing import NamedTuple


class Entry(NamedTuple):
    """What a walk or a listing says of a file.

    `mtime_ns` is when its content was made where that is `recorded`, as it is for a file; else when it came
    to the store. `md5` and `etag` are None where the listing does not tell.
    """

    path: str
    size: int
    mtime_ns: int
    recorded: bool = True
    executable: bool = False
    md5: bytes | None = None
    etag: str | None = None


def order(path: str) -> bytes:
    """What entries are sorted by: the bytes of the path, as the object stores do."""
    return os.fsencode(path)


def to_record(entry: Entry) -> bytes:
    """Bytes that sort as the paths do, since no path holds a zero byte."""
    return os.fsencode(entry.path) + b"\0" + marshal.dumps(entry[1:])


def from_record(record: bytes) -> Entry:
    path, _, rest = record.partition(b"\0")
    return Entry(os.fsdecode(path), *marshal.loads(rest))
