"""The stores of the clouds: check keys, explain errors, and leave the rest to `gofer.objects`.

The laptop and the nodes use the same client. It takes more CPU than obstore 0.12, but has what obstore lacks
and gofer promises: the service's check of each MD5, MD5 and metadata in listings, Retry-After, and errors
without addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from gofer.errors import KeyExists, KeyNotFound, StoreError
from gofer.objects.base import ObjectService
from gofer.objects.facts import ObjectsError, VersionMismatch
from gofer.storage.base import Block, BlockRules, Bytes, ObjectInfo, check_key, check_prefix
from gofer.storage.explain import Circumstances, FailedOperation, explain

T = TypeVar("T")
# In the class body, `list` is the method.
_BlockList: TypeAlias = list[Block]


class CloudStore:
    """A store over HTTP. Any thread may call; connections are shared and kept open.

    `circumstances` is called only to explain an error. The repr shows the URL and nothing else.
    """

    def __init__(self, url: str, objects: ObjectService, circumstances: Callable[[], Circumstances]) -> None:
        self.url = url
        self._objects = objects
        self._circumstances = circumstances

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def block_rules(self) -> BlockRules:
        return self._objects.block_rules

    @property
    def clock_ahead_s(self) -> float | None:
        """How far the service's clock is ahead of this machine's; None before the first answer."""
        return self._objects.client.clock_ahead_s

    def get(self, key: str) -> bytes:
        with self._explained("read", check_key(key)):
            return self._objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        if length < 0:
            raise StoreError(f"cannot read {length} bytes of {key!r} in {self.url}")
        with self._explained("read", key):
            return self._objects.get_range(key, start, length)

    def read_into(self, key: str, start: int, buffer: memoryview, *, etag: str | None = None) -> int:
        with self._explained("read", check_key(key)):
            return self._objects.read_into(key, start, buffer, etag=etag)

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        with self._explained("read", check_key(key)):
            pieces = self._objects.get_stream(key, start, length)
        return self._each("read", key, pieces)

    def put(self, key: str, data: Bytes, *, new: bool = False) -> None:
        with self._explained("create" if new else "write", check_key(key)):
            self._objects.put(key, data, new=new)

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        info = self.head(key)
        try:
            if info is None or old is None:
                if info is not None or old is not None:
                    return False
                self.put(key, new, new=True)
                return True
            # Version first, then the bytes: the write below fails when the object changes between the two.
            if self.get(key) != old:
                return False
        except (KeyExists, KeyNotFound):
            return False
        with self._explained("write", key):
            try:
                self._objects.put(key, new, etag=info.etag)
            except VersionMismatch:
                return False
        return True

    def put_hashed(
        self, key: str, data: Bytes, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        with self._explained("write", check_key(key)):
            self._objects.put(key, data, md5=md5, metadata=metadata)

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        with self._explained("write", check_key(key)):
            return self._objects.put_stream(key, pieces, md5=md5, metadata=metadata)

    def head(self, key: str) -> ObjectInfo | None:
        with self._explained("read", check_key(key)):
            return self._objects.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._each("list", prefix, self._objects.list(check_prefix(prefix)))

    def list_beginning(self, text: str) -> Iterator[ObjectInfo]:
        # A beginning may end with a slash, a key may not.
        check_prefix(text.rstrip("/"))
        return self._each("list", text, self._objects.list_beginning(text))

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        return self._each("list", prefix, self._objects.list_folders(check_prefix(prefix)))

    def list_level(self, prefix: str = "") -> Iterator[ObjectInfo | str]:
        return self._each("list", prefix, self._objects.list_level(check_prefix(prefix)))

    def delete(self, keys: Iterable[str]) -> int:
        # All keys are checked before the first object is removed.
        todo = [check_key(key) for key in keys]
        with self._explained("delete", todo[0] if len(todo) == 1 else ""):
            return self._objects.delete(todo)

    def copy(self, source: str, destination: str) -> None:
        check_key(destination)
        with self._explained("read", check_key(source)):
            self._objects.copy(source, destination)

    # -- blocks

    def begin_upload(
        self, key: str, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        with self._explained("write", check_key(key)):
            return self._objects.begin_upload(key, md5=md5, metadata=metadata)

    def list_blocks(self, key: str, upload: str) -> _BlockList | None:
        with self._explained("read", check_key(key)):
            return self._objects.list_blocks(key, upload)

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        with self._explained("write", check_key(key)):
            return self._objects.put_block(key, upload, number, data)

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        with self._explained("write", check_key(key)):
            self._objects.commit_blocks(key, upload, blocks, md5=md5, metadata=metadata)

    def abort_upload(self, key: str, upload: str) -> None:
        with self._explained("write", check_key(key)):
            self._objects.abort_upload(key, upload)

    def make(self) -> bool:
        with self._explained("create"):
            return self._objects.make()

    # -- private

    def _each(self, verb: str, key: str, items: Iterator[T]) -> Iterator[T]:
        try:
            yield from items
        except ObjectsError as error:
            raise explain(error, FailedOperation(verb, key), self._circumstances()) from None

    @contextmanager
    def _explained(self, verb: str, key: str = "") -> Iterator[None]:
        try:
            yield
        except ObjectsError as error:
            # `from None`: the cause does not help the reader, and its request may contain a signature.
            raise explain(error, FailedOperation(verb, key), self._circumstances()) from None
