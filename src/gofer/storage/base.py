"""The contract of an object store: keys, bytes, few verbs.

A key is a relative POSIX path without empty, `.` or `..` parts. Every verb blocks, may be called from
several threads, and raises only the StoreError family. Writes are atomic: a reader sees the whole old or
the whole new object, never a part, whatever is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class ObjectInfo(NamedTuple):
    """What a listing says of an object; `modified` is seconds since the epoch."""

    key: str
    size: int
    modified: float


class Store(Protocol):
    """Few verbs, the same over folders, memory and the clouds."""

    url: str

    def get(self, key: str) -> bytes:
        """The whole object; KeyNotFound when absent."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; a negative start counts from the end; fewer bytes at the end
        of the object, none past it; KeyNotFound when absent."""

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Replace the object, or with `new` create it or raise KeyExists, atomically even between writers."""

    def head(self, key: str) -> ObjectInfo | None:
        """Size and time, or None when absent."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key is `prefix` or lies under the folder `prefix`, in key order."""

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        """The names of the folders directly under the folder `prefix`, in order."""

    def delete(self, keys: Iterable[str]) -> int:
        """Remove objects; absent ones are passed over. Returns how many were there."""

    def copy(self, source: str, destination: str) -> None:
        """Copy within the store, replacing the destination; KeyNotFound when the source is absent."""


@runtime_checkable
class Appends(Protocol):
    """A store whose objects can grow in place (one writer an object)."""

    def append(self, key: str, data: bytes) -> None:
        """Add bytes at the end, creating the object if need be."""


@runtime_checkable
class OnDisk(Protocol):
    """A store whose objects are files that this machine can open."""

    def path(self, key: str) -> Path:
        """Where the object is or would be."""
