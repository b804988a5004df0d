"""Converts between keys and the names that a service can store, and encodes names in a URL.

A byte that a service cannot store becomes U+201B and two hexadecimal digits, as rclone writes bytes that are
not UTF-8. This applies to such bytes, to control characters, and in Azure also to backslashes and to a dot at
the end of a file's or folder's name.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_MARK = "\u201b"
_PLAIN = re.compile(r"[A-Za-z0-9_./~-]*")
# No key contains a zero byte, so its escape in a name that another program chose is plain text.
_ESCAPED = re.compile(_MARK + r"(?:(" + _MARK + r")|((?!00)[0-9A-F]{2}))")
_IN_S3_ALONE = r"[\udc80-\udcff\x00-\x1f\x7f]"
_IN_AZURE_ALONE = r"[\udc80-\udcff\x00-\x1f\x7f\\]|\.(?=/|\Z)"
# A mark that could be read as the start of an escape is doubled.
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
    """As `in_url`, but slashes are encoded too."""
    return quote(text, safe="~")


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if found == _MARK:
        return _MARK + _MARK
    return "".join(f"{_MARK}{byte:02X}" for byte in found.encode("utf-8", "surrogateescape"))


def _unescape(match: re.Match[str]) -> str:
    # Bytes above 0x7f are escaped only where a key was not UTF-8, so each becomes one surrogate again.
    return _MARK if match[1] else bytes([int(match[2], 16)]).decode("utf-8", "surrogateescape")
