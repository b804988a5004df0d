"""A true store over another one that counts what is read through it, and can fail for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gofer.errors import StoreError
from gofer.storage.base import ObjectInfo, Store


class CountingStore:
    """Passes every verb on. After `passes` more reads, `failures` reads fail as on a broken network."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.bytes_read = 0
        self.reads: list[tuple[str, int]] = []
        self.failures = 0
        self.passes = 0

    def get(self, key: str) -> bytes:
        return self._count(key, self.inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._count(key, self.inner.get_range(key, start, length))

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        self.inner.put(key, data, new=new)

    def head(self, key: str) -> ObjectInfo | None:
        self._fail(key)
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix)

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        self._fail(prefix)
        return self.inner.list_folders(prefix)

    def delete(self, keys: Iterable[str]) -> int:
        return self.inner.delete(keys)

    def copy(self, source: str, destination: str) -> None:
        self.inner.copy(source, destination)

    def reset(self) -> None:
        self.bytes_read = 0
        self.reads.clear()

    def _count(self, key: str, data: bytes) -> bytes:
        self._fail(key)
        self.bytes_read += len(data)
        self.reads.append((key, len(data)))
        return data

    def _fail(self, key: str) -> None:
        if self.failures and self.passes:
            self.passes -= 1
        elif self.failures:
            self.failures -= 1
            raise StoreError(f"cannot read {key!r}: connection reset")
