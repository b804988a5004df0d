"""A store in the memory of the process: for tests, and as the smallest complete example of the contract."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from gofer.errors import KeyExists, StoreError
from gofer.storage.base import Block, BlockRules, Bytes, ObjectInfo, check_key, check_prefix, no_such_key

_PIECE = 1 << 20
# In the class body, `list` is the method.
_BlockList: TypeAlias = list[Block]
_Uploads: TypeAlias = dict[tuple[str, str], dict[int, bytes]]


class MemoryStore:
    """Objects in a dict with a lock. Two stores of this class share nothing."""

    block_rules = BlockRules(1, 1 << 30, 50_000)

    def __init__(self, name: str = "") -> None:
        self.url = f"memory://{name}"
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._uploads: _Uploads = {}

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

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        data = self.get(key)
        end = len(data) if length is None else min(start + length, len(data))
        return (data[at : min(at + _PIECE, end)] for at in range(start, end, _PIECE))

    def put(self, key: str, data: Bytes, *, new: bool = False) -> None:
        self._keep(key, data, new=new)

    def put_hashed(
        self, key: str, data: Bytes, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        self._keep(key, data, md5=md5, metadata=metadata)

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        data = b"".join(pieces)
        self._keep(key, data, md5=md5, metadata=metadata)
        return len(data)

    def head(self, key: str) -> ObjectInfo | None:
        found = self._objects.get(check_key(key))
        return None if found is None else found[1]

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
        data, info = self.get(source), self.head(source)
        self._keep(destination, data, metadata=info.metadata if info else None)

    def append(self, key: str, data: bytes) -> None:
        with self._lock:
            old = self._objects.get(check_key(key))
            whole = (old[0] if old else b"") + bytes(data)
            self._objects[key] = (whole, _info(key, whole, old[1].metadata if old else None))

    # -- blocks

    def begin_upload(
        self, key: str, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        upload = str(len(self._uploads))
        self._uploads[check_key(key), upload] = {}
        return upload

    def list_blocks(self, key: str, upload: str) -> _BlockList | None:
        held = self._uploads.get((check_key(key), upload))
        return None if held is None else [Block(n, len(data), str(n)) for n, data in sorted(held.items())]

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        self._uploads[check_key(key), upload][number] = bytes(data)
        return Block(number, len(data), str(number))

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        held = self._uploads.pop((check_key(key), upload))
        self._keep(key, b"".join(held[block.number] for block in blocks), metadata=metadata)

    def abort_upload(self, key: str, upload: str) -> None:
        self._uploads.pop((check_key(key), upload), None)

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        with self._lock:
            held = self._objects.get(check_key(key))
            if (None if held is None else held[0]) != old:
                return False
            self._objects[key] = (bytes(new), _info(key, new, None))
        return True

    # -- private

    def _keep(
        self,
        key: str,
        data: Bytes,
        *,
        new: bool = False,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        info = _info(check_key(key), data, metadata)
        if md5 not in (None, info.md5):
            raise StoreError(f"cannot write {key!r} in {self.url}: the bytes do not have the given MD5")
        with self._lock:
            if new and key in self._objects:
                raise KeyExists(f"the store {self.url} already has an object {key!r}")
            # A copy: the caller may reuse its buffer.
            self._objects[key] = (bytes(data), info)

    def _under(self, prefix: str) -> Iterable[str]:
        check_prefix(prefix)
        with self._lock:
            keys = sorted(self._objects)
        return [key for key in keys if not prefix or key == prefix or key.startswith(f"{prefix}/")]


def _info(key: str, data: Bytes, metadata: Mapping[str, str] | None) -> ObjectInfo:
    md5 = hashlib.md5(data).digest()
    return ObjectInfo(key, len(data), time.time(), md5, md5.hex(), dict(metadata or {}))
