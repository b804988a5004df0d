"""The attributes of a file as metadata of its object: the time of its content, and whether it is executable.

`mtime` has rclone's form for blobs. The seconds that rclone writes for S3 objects are read too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime

from gofer.transfer.entries import FileEntry

_SECOND_NS = 1_000_000_000
_EXECUTABLE = 0o100
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_SECONDS = re.compile(r"(\d{1,11})(?:\.(\d{1,9}))?")


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
