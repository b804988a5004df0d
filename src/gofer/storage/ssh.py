"""A store that is a folder on another machine, reached over SSH: `ssh://HOST/folder`.

HOST is a host for `ssh`: user@host, or a name of ~/.ssh/config. `ssh://HOST/~/x` is in the home directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import GoferError, KeyExists, KeyNotFound, StoreError, Unreachable, UsageError
from gofer.objects.compare_and_swap import old_md5
from gofer.objects.facts import Exists, ObjectNotFound
from gofer.remote.calls import describe
from gofer.storage.base import ObjectInfo, check_key, check_prefix
from gofer.transport.machine import CALL_S, Machine

if TYPE_CHECKING:
    from gofer.remote.api import FilesApi

# Larger objects are read in pieces, so that other threads can use the connection in between.
_PIECE = 4 << 20
_STEP = 1 << 20
# The search for empty folders in a tree of many files on a slow disk takes long.
_FOLDERS_S = 300.0


class SshAddress(NamedTuple):
    """The host and the folder of a URL."""

    host: str
    folder: str

    @classmethod
    def parse(cls, url: str) -> SshAddress:
        """Parse a URL; UsageError when it names no host or no folder."""
        host, slash, folder = url.removeprefix("ssh://").partition("/")
        if not host or not slash or not folder.strip("/"):
            raise UsageError(f"`{url}` is not a folder on a machine", hint="write `ssh://HOST/folder`")
        folder = folder.rstrip("/")
        return cls(host, folder if folder.startswith("~") else f"/{folder}")

    def url(self) -> str:
        return f"ssh://{self.host}/{self.folder.lstrip('/')}"


class SshStore:
    """A store on a machine. Any thread may call; calls share one connection, in turn."""

    def __init__(self, machine: Machine, address: SshAddress, *, create: bool = False) -> None:
        self.machine = machine
        self.url = address.url()
        self.folder = address.folder
        self._create = create
        self._root: str | None = None

    @property
    def root(self) -> str:
        """The full path of the folder on the machine; StoreError when it does not exist."""
        if self._root is None:
            with self._calling(self.folder) as files:
                found = files.make() if self._create else files.find()
            if found is None:
                raise StoreError(
                    f"{self.machine.name} has no folder {self.folder}",
                    hint=f"create it with `ssh {self.machine.name} mkdir -p {self.folder}`",
                )
            self._root = found
        return self._root

    def get(self, key: str) -> bytes:
        pieces, start = list[bytes](), 0
        while True:
            pieces.append(self.get_range(key, start, _PIECE))
            start += len(pieces[-1])
            if len(pieces[-1]) < _PIECE:
                return b"".join(pieces)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length < 0:
            raise StoreError(f"a range of {key!r} cannot have {length} bytes")
        with self._calling(self.root, key) as files:
            return files.get(key, start, length)

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        with self._calling(self.root, key) as files:
            files.put(key, data, new)

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        with self._calling(self.root, key) as files:
            return files.compare_and_swap(key, old_md5(old), new)

    def head(self, key: str) -> ObjectInfo | None:
        with self._calling(self.root, key) as files:
            found = files.head(key)
        return None if found is None else ObjectInfo(*found)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        after = ""
        while True:
            with self._calling(self.root) as files:
                page = files.list_page(check_prefix(prefix), after)
            if not page:
                return
            for entry in page:
                yield ObjectInfo(*entry)
            # The last key, not a position: objects may be added or removed between two pages.
            after = page[-1].key

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        with self._calling(self.root) as files:
            return iter(files.list_folders(check_prefix(prefix)))

    def delete(self, keys: Iterable[str]) -> int:
        todo = [check_key(key) for key in keys]
        if not todo:
            return 0
        with self._calling(self.root) as files:
            return files.delete(todo)

    def copy(self, source: str, destination: str) -> None:
        with self._calling(self.root, source) as files:
            files.copy(source, check_key(destination))

    def append(self, key: str, data: bytes) -> None:
        """Append bytes to the file; create it if needed."""
        with self._calling(self.root, key) as files:
            files.append(key, data)

    def remove_empty_folders(self, prefix: str) -> None:
        with self._calling(self.folder, wait_s=_FOLDERS_S) as files:
            files.remove_empty_folders(check_prefix(prefix))

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        first = self.get_range(key, start, _STEP if length is None else min(length, _STEP))
        return self._continue(key, first, start, length)

    def _continue(self, key: str, piece: bytes, start: int, length: int | None) -> Iterator[bytes]:
        left = length
        while piece:
            yield piece
            start += len(piece)
            left = None if left is None else left - len(piece)
            if left == 0 or len(piece) < _STEP:
                return
            piece = self.get_range(key, start, _STEP if left is None else min(left, _STEP))

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """As the contract, but files have no metadata, so `metadata` is ignored."""
        import hashlib
        import secrets

        # The token names the unfinished object, which several writers of one key must not share.
        token, hashed, total = secrets.token_hex(8), hashlib.md5(), 0
        check_key(key)
        calling = partial(self._calling, self.root)
        try:
            for piece in pieces:
                with calling() as files:
                    files.stage(token, piece)
                hashed.update(piece)
                total += len(piece)
            if md5 not in (None, hashed.digest()):
                raise StoreError(f"the bytes for {key!r} do not have the given MD5")
            with calling() as files:
                files.commit(token, key)
        except BaseException:
            # A failure here is not raised: the first error says more.
            with suppress(StoreError), calling() as files:
                files.unstage(token)
            raise
        return total

    @contextmanager
    def _calling(self, root: str, key: str | None = None, *, wait_s: float = CALL_S) -> Iterator[FilesApi]:
        """The store in the folder `root` for a call; its errors become those of a store, about `key`."""
        if key is not None:
            check_key(key)
        try:
            yield self.machine.files(root, wait_s=wait_s)
        except ObjectNotFound as error:
            raise KeyNotFound(f"the store {self.url} has no object {key!r}") from error
        except Exists as error:
            raise KeyExists(f"the store {self.url} already has an object {key!r}") from error
        except Unreachable as error:
            raise StoreError(
                f"the store {self.url} cannot be reached: {error.message}", hint=error.hint
            ) from error
        except GoferError:
            raise
        except Exception as error:
            raise StoreError(f"the store {self.url} failed: {describe(error)}") from error
