"""A store that lives and dies with the process: for tests, and as the contract's smallest true example."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from gofer.errors import KeyExists, StoreError
from gofer.storage.base import ObjectInfo
from gofer.storage.keys import check_key, check_prefix, no_such_key


class MemoryStore:
    """Objects in a dict under a lock. Two objects of this class share nothing."""

    def __init__(self, name: str = "") -> None:
        self.url = f"memory://{name}"
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, float]] = {}

    def get(self, key: str) -> bytes:
        found = self._objects.get(check_key(key))
        if found is None:
            raise no_such_key(self.url, key)
        return found[0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length < 0:
            raise StoreError(f"cannot read {length} bytes of {key!r} in {self.url}")
        data = self.get(key)
        first = start if start >= 0 else max(len(data) + start, 0)
        return data[first : first + length]

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        with self._lock:
            if new and check_key(key) in self._objects:
                raise KeyExists(f"the store {self.url} already has an object {key!r}")
            self._objects[check_key(key)] = (bytes(data), time.time())

    def head(self, key: str) -> ObjectInfo | None:
        found = self._objects.get(check_key(key))
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return iter([info for key in self._under(prefix) if (info := self.head(key))])

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        skip = len(prefix) + 1 if prefix else 0
        rests = (key[skip:] for key in self._under(prefix) if key != prefix)
        return iter(sorted({rest.partition("/")[0] for rest in rests if "/" in rest}))

    def delete(self, keys: Iterable[str]) -> int:
        checked = [check_key(key) for key in keys]
        with self._lock:
            return sum(self._objects.pop(key, None) is not None for key in checked)

    def copy(self, source: str, destination: str) -> None:
        self.put(destination, self.get(source))

    def append(self, key: str, data: bytes) -> None:
        with self._lock:
            old = self._objects.get(check_key(key), (b"", 0.0))[0]
            self._objects[key] = (old + bytes(data), time.time())

    def _under(self, prefix: str) -> Iterable[str]:
        check_prefix(prefix)
        with self._lock:
            keys = sorted(self._objects)
        return [key for key in keys if not prefix or key == prefix or key.startswith(f"{prefix}/")]
