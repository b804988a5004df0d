"""The part of the Store contract that snapshots need. It keeps this package independent of gofer.storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Info(Protocol):
    """What a store says of an object."""

    @property
    def key(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def modified(self) -> float: ...


class ObjectStore(Protocol):
    """As gofer.storage.base.Store."""

    url: str

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def put(self, key: str, data: bytes, *, new: bool = False) -> None: ...

    def head(self, key: str) -> Info | None: ...

    def list(self, prefix: str = "") -> Iterable[Info]: ...


class DeletableStore(ObjectStore, Protocol):
    """An object store whose objects may be deleted."""

    def delete(self, keys: Iterable[str]) -> int: ...
