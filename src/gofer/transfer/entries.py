"""The entry of a file or object, which both ends of a transfer use; its order, and its form on disk.

Paths are relative to an end, with `/` between their parts; the path of an end that is itself a file is empty.
Bytes that are not UTF-8 are surrogates, as Python reads them from the file system.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple


class FileEntry(NamedTuple):
    """What a walk or a listing says of a file.

    `mtime_ns` is the time of its content if `recorded` is set, as it is for local files; otherwise the time
    when the object arrived in the store. `md5` and `etag` are None where the listing does not contain them.
    """

    path: str
    size: int
    mtime_ns: int
    recorded: bool = True
    executable: bool = False
    md5: bytes | None = None
    etag: str | None = None


def order(path: str) -> bytes:
    """The sort key of entries: the bytes of the path, as in object stores."""
    return os.fsencode(path)


# Size, seconds and nanoseconds of the time, the two flags, whether MD5 and ETag are known, the MD5's length.
_FACTS = struct.Struct("<QqI????B")
_SECOND_NS = 1_000_000_000
# A service may list a name with a zero byte. No store takes such a key, so under this name the object cannot
# be read, and the transfer reports this object as failed.
_ZERO = "\u201b00"


def to_record(entry: FileEntry) -> bytes:
    """The entry as bytes.

    Records sort as their paths do, because the path in a record contains no zero byte.
    """
    path = os.fsencode(entry.path.replace("\0", _ZERO))
    md5, etag = entry.md5 or b"", (entry.etag or "").encode("utf-8", "surrogateescape")
    known = (entry.recorded, entry.executable, entry.md5 is not None, entry.etag is not None)
    facts = _FACTS.pack(entry.size, *divmod(entry.mtime_ns, _SECOND_NS), *known, len(md5))
    return b"".join((path, b"\0", facts, md5, etag))


def from_record(record: bytes) -> FileEntry:
    """The entry of a record."""
    path, _, rest = record.partition(b"\0")
    size, seconds, rest_ns, recorded, executable, has_md5, has_etag, length = _FACTS.unpack_from(rest)
    end = _FACTS.size + length
    md5 = rest[_FACTS.size : end] if has_md5 else None
    etag = rest[end:].decode("utf-8", "surrogateescape") if has_etag else None
    return FileEntry(os.fsdecode(path), size, seconds * _SECOND_NS + rest_ns, recorded, executable, md5, etag)
