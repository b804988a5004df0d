"""What is said of objects and blocks, and what goes wrong with them. Nothing here holds a credential."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional


class ObjectInfo(NamedTuple):
    """What a listing says of an object; `modified` is seconds since the epoch.

    `md5` and `metadata` are there where the store keeps them and the question showed them: a listing of S3
    knows no metadata.
    """

    key: str
    size: int
    modified: float
    md5: Optional[bytes] = None
    etag: Optional[str] = None
    metadata: Optional[Mapping[str, str]] = None


class BlockRules(NamedTuple):
    """The sizes a service takes: each block but the last has at least `least` bytes."""

    least: int
    most: int
    most_blocks: int


class Block(NamedTuple):
    """A block that the service has and the object does not show yet; `number` counts from 0."""

    number: int
    size: int
    tag: str


class ObjectsError(Exception):
    """The service refused or could not be reached.

    `status` is that of HTTP, or 0 when there was no answer; `code` the service's word, or `timeout`,
    `connection`, `name`, `tls` or `answer` for what went wrong on the way; `words` one line for people;
    `detail` what else the service said of the cause.
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
    """The service could not fetch the source of a copy, or not in time; it may be brought another way."""


class ObjectNotFound(ObjectsError):
    """No object has that key."""


class Exists(ObjectsError):
    """An object has that key already, and the write asked for it to be new."""


class VersionMismatch(ObjectsError):
    """The object is not the version that was asked for."""
