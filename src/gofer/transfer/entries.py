"""One file or object as both ends of a transfer speak of it, its order, and its form on disk.

Paths are relative to an end, with `/` between their parts; that of an end which is itself a file is empty.
Bytes that are not UTF-8 stand in them the way Python reads them from the file system (surrogates).
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple


class FileEntry(NamedTuple):
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


# Size, seconds and nanoseconds of the time, the two flags, whether MD5 and ETag are known, the MD5's length.
_FACTS = struct.Struct("<QqI????B")
_SECOND_NS = 1_000_000_000
# A service may list a name with a zero byte. No store takes such a key, so under this name the object cannot
# be read, and the transfer reports that one object as failed.
_ZERO = "\u201b00"


def to_record(entry: FileEntry) -> bytes:
    """Bytes that sort as the paths do, since the path in a record holds no zero byte."""
    path = os.fsencode(entry.path.replace("\0", _ZERO))
    md5, etag = entry.md5 or b"", (entry.etag or "").encode("utf-8", "surrogateescape")
    known = (entry.recorded, entry.executable, entry.md5 is not None, entry.etag is not None)
    facts = _FACTS.pack(entry.size, *divmod(entry.mtime_ns, _SECOND_NS), *known, len(md5))
    return b"".join((path, b"\0", facts, md5, etag))


def from_record(record: bytes) -> FileEntry:
    """What `to_record` was given."""
    path, _, rest = record.partition(b"\0")
    size, seconds, rest_ns, recorded, executable, has_md5, has_etag, length = _FACTS.unpack_from(rest)
    end = _FACTS.size + length
    md5 = rest[_FACTS.size : end] if has_md5 else None
    etag = rest[end:].decode("utf-8", "surrogateescape") if has_etag else None
    return FileEntry(os.fsdecode(path), size, seconds * _SECOND_NS + rest_ns, recorded, executable, md5, etag)
