"""Protocols for the stores of snapshots. Because of them, this package does not import gofer.storage.

Each method has the contract of the same method of gofer.storage.base.Store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Info(Protocol):
    """Facts about one object; `modified` is seconds since the epoch by the clock of the store."""

    @property
    def key(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def modified(self) -> float: ...


class ObjectStore(Protocol):
    """The methods of gofer.storage.base.Store that snapshots use."""

    url: str

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def put(self, key: str, data: bytes, *, new: bool = False) -> None: ...

    def head(self, key: str) -> Info | None: ...

    def list(self, prefix: str = "") -> Iterable[Info]: ...


class DeletableStore(ObjectStore, Protocol):
    """An object store that can delete objects."""

    def delete(self, keys: Iterable[str]) -> int: ...
