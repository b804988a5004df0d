"""Facts about objects and blocks, and the errors of stores. Nothing here contains a credential."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Mapping, NamedTuple, Optional

from gofer.core.json_text import parse_count

_MD5_BYTES = 16


class ObjectInfo(NamedTuple):
    """What a store says of an object; `modified` is seconds since the epoch.

    `md5` and `metadata` are set where the store keeps them and the request returns them: a listing of S3 has
    no metadata.
    """

    key: str
    size: int
    modified: float
    md5: Optional[bytes] = None
    etag: Optional[str] = None
    metadata: Optional[Mapping[str, str]] = None


def parse_size(text: Optional[str]) -> int:
    """The size that a service gives for an object or a block; 0 without one. ValueError for other text.

    A larger number than any file can have is other text too: spool files and SQLite have 64 bits for a size.
    """
    size = parse_count(text or "0")
    if size is None:
        raise ValueError(f"{(text or '')[:40]!r} is not the size of an object")
    return size


def parse_md5(text: Optional[str]) -> Optional[bytes]:
    """The MD5 that base64 text holds; None for other text, which anybody with write access can set."""
    try:
        md5 = a2b_base64(text or "")
    except ValueError:
        return None
    return md5 if len(md5) == _MD5_BYTES else None


class BlockRules(NamedTuple):
    """The block sizes that a service accepts. Every block except the last has at least `least` bytes."""

    least: int
    most: int
    most_blocks: int


class Block(NamedTuple):
    """A block that is uploaded but not yet part of the object; `number` counts from 0."""

    number: int
    size: int
    tag: str


class ObjectsError(Exception):
    """The service refused a request or could not be reached.

    `status` is the HTTP status, 0 without an answer. `code` is the service's code, or `timeout`,
    `connection`, `name`, `tls` or `answer` for a problem of the connection. `words` is one line for people.
    `detail` is what else the service says about the cause.
    """

    def __init__(self, status: int, code: str, words: str, detail: str = "") -> None:
        super().__init__(status, code, words, detail)
        self.status = status
        self.code = code
        self.words = words
        self.detail = detail

    def __str__(self) -> str:
        return self.words


class NotCopied(ObjectsError):
    """The service could not fetch the source of a copy, or not in time. The caller can copy another way."""


class ObjectNotFound(ObjectsError):
    """There is no object with that key."""


class Exists(ObjectsError):
    """There is already an object with that key, and the write was for a new object."""


class VersionMismatch(ObjectsError):
    """The object has another version than the request requires."""
