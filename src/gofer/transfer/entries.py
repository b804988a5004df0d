"""The entry of a file or object, which both ends of a transfer use: its order, its form in spool files, and
its attributes as metadata of the object.

Paths are relative to an end, with `/` between their parts; the path of an end that is itself a file is empty.
Bytes that are not UTF-8 are surrogates, as Python reads them from the file system. The metadata `mtime` has
rclone's form for blobs. The seconds that rclone writes for S3 objects are read too.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

_EXECUTABLE = 0o100
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_SECONDS = re.compile(r"(\d{1,11})(?:\.(\d{1,9}))?")


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


def to_metadata(entry: FileEntry) -> dict[str, str]:
    """The metadata of an entry. A time that no file can have, such as one before 1970, is left out."""
    words: dict[str, str] = {}
    if entry.mtime_ns >= 0 and entry.recorded:
        seconds, rest = divmod(entry.mtime_ns, _SECOND_NS)
        year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
        clock = f"{hour:02d}:{minute:02d}:{second:02d}.{rest:09d}Z"
        words["mtime"] = f"{year:04d}-{month:02d}-{day:02d}T{clock}"
    if entry.executable:
        words["mode"] = "100755"
    return words


def read_mtime_ns(metadata: Mapping[str, str]) -> int | None:
    """The time of the content; None when the metadata has none, or one in an unknown form."""
    text = metadata.get("mtime", "")
    if stamp := _STAMP.fullmatch(text):
        try:
            moment = datetime.fromisoformat(stamp[1] + stamp[3].replace("Z", "+00:00"))
        except ValueError:
            return None
        return int(moment.timestamp()) * _SECOND_NS + _fraction_ns(stamp[2])
    seconds = _SECONDS.fullmatch(text)
    return int(seconds[1]) * _SECOND_NS + _fraction_ns(seconds[2]) if seconds else None


def is_executable(metadata: Mapping[str, str]) -> bool:
    """Whether the metadata says that the owner may execute the file."""
    mode = metadata.get("mode", "")
    return bool(re.fullmatch(r"[0-7]{3,7}", mode)) and bool(int(mode, 8) & _EXECUTABLE)


def _fraction_ns(digits: str | None) -> int:
    # `.5` is 500 million nanoseconds.
    return int((digits or "").ljust(9, "0"))
