"""Keys as names that a service can hold, and back; and names in a URL.

What a service cannot hold is written as U+201B and two hexadecimal digits a byte, the way rclone writes bytes
that are not UTF-8: those bytes, control characters, and in Azure also backslashes and a dot at the end of a
file's or folder's name.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_MARK = "\u201b"
_PLAIN = re.compile(r"[A-Za-z0-9_./~-]*")
# No key holds a zero byte: its escape, in a name that somebody else chose, stays text.
_ESCAPED = re.compile(_MARK + r"(?:(" + _MARK + r")|((?!00)[0-9A-F]{2}))")
_IN_S3_ALONE = r"[\udc80-\udcff\x00-\x1f\x7f]"
_IN_AZURE_ALONE = r"[\udc80-\udcff\x00-\x1f\x7f\\]|\.(?=/|\Z)"
# A mark that could be taken for the beginning of an escape is doubled.
_MISLEADING = _MARK + r"(?=" + _MARK + r"|[0-9A-F]{2}|%s)"
_IN_S3 = re.compile(_MISLEADING % _IN_S3_ALONE + "|" + _IN_S3_ALONE)
_IN_AZURE = re.compile(_MISLEADING % _IN_AZURE_ALONE + "|" + _IN_AZURE_ALONE)


def azure_name(key: str) -> str:
    """The name of the blob with that key."""
    return _IN_AZURE.sub(_escape, key)


def s3_name(key: str) -> str:
    """The name of the S3 object with that key."""
    return _IN_S3.sub(_escape, key)


def key_of(name: str) -> str:
    """The key of the object with that name."""
    return _ESCAPED.sub(_unescape, name) if _MARK in name else name


def in_url(text: str) -> str:
    """Percent-encoded as both services sign it: all but letters, digits, `-`, `.`, `_`, `~` and slashes."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe="/~")


def in_query(text: str) -> str:
    """As `in_url`, slashes too."""
    return quote(text, safe="~")


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if found == _MARK:
        return _MARK + _MARK
    return "".join(f"{_MARK}{byte:02X}" for byte in found.encode("utf-8", "surrogateescape"))


def _unescape(match: re.Match[str]) -> str:
    # Bytes above 0x7f come only from what was no UTF-8, so each is one surrogate again.
    return _MARK if match[1] else bytes([int(match[2], 16)]).decode("utf-8", "surrogateescape")
