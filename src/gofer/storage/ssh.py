"""A store that is a folder on another machine, reached over SSH: `ssh://HOST/folder`.

HOST is a host for `ssh`: user@host, or a name of ~/.ssh/config. `ssh://HOST/~/x` is in the home directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from gofer.errors import KeyExists, KeyNotFound, StoreError, Unreachable, UsageError
from gofer.objects.facts import Exists, ObjectNotFound
from gofer.remote.answer import Answer
from gofer.storage.base import ObjectInfo, check_key, check_prefix
from gofer.transport.machine import Machine, RemoteFailure

# Larger objects are read in pieces, so that other threads can use the connection in between.
_PIECE = 4 << 20
_STEP = 1 << 20


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
    """A store on a machine, through its verbs. Any thread may call; calls share one connection, in turn."""

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
            if self._create:
                self._root = str(self._call("objects.make", root=self.folder).value)
            else:
                found = self._call("objects.find", root=self.folder).value
                if found is None:
                    raise StoreError(
                        f"{self.machine.name} has no folder {self.folder}",
                        hint=f"create it with `ssh {self.machine.name} mkdir -p {self.folder}`",
                    )
                self._root = str(found)
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
        return self._ask("objects.get", key, start=start, length=length).data

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        self._ask("objects.put", key, data, new=new)

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        from gofer.objects.compare_and_swap import old_md5

        return bool(self._ask("objects.compare_and_swap", key, new, old_md5=old_md5(old)).value)

    def head(self, key: str) -> ObjectInfo | None:
        found = self._ask("objects.head", key).value
        return None if found is None else ObjectInfo(key, *found)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        after = ""
        while True:
            page = self._call("objects.list", root=self.root, prefix=check_prefix(prefix), after=after).value
            if not page:
                return
            for entry in page:
                yield ObjectInfo(*entry)
            # The last key, not a position: objects may be added or removed between two pages.
            after = page[-1][0]

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        return iter(self._call("objects.folders", root=self.root, prefix=check_prefix(prefix)).value)

    def delete(self, keys: Iterable[str]) -> int:
        todo = [check_key(key) for key in keys]
        return int(self._call("objects.delete", root=self.root, keys=todo).value) if todo else 0

    def copy(self, source: str, destination: str) -> None:
        self._ask("objects.copy", source=check_key(source), destination=check_key(destination))

    def append(self, key: str, data: bytes) -> None:
        """Append bytes to the file; create it if needed."""
        self._ask("objects.append", key, data)

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
        try:
            for piece in pieces:
                self._call("objects.stage", piece, root=self.root, token=token)
                hashed.update(piece)
                total += len(piece)
            if md5 not in (None, hashed.digest()):
                raise StoreError(f"the bytes for {key!r} do not have the given MD5")
            self._call("objects.commit", root=self.root, token=token, key=key)
        except BaseException:
            with suppress(StoreError):  # the error that is being raised says more
                self._call("objects.unstage", root=self.root, token=token)
            raise
        return total

    def _ask(self, verb: str, key: str | None = None, data: bytes = b"", **arguments: Any) -> Answer:
        named = {} if key is None else {"key": check_key(key)}
        try:
            return self._call(verb, data, root=self.root, **named, **arguments)
        except KeyError as error:
            raise KeyNotFound(f"the store {self.url} has no object {key or arguments['source']!r}") from error
        except FileExistsError as error:
            raise KeyExists(f"the store {self.url} already has an object {key!r}") from error

    def _call(self, verb: str, data: bytes = b"", **arguments: Any) -> Answer:
        """Call a verb. Raises KeyError and FileExistsError where the caller knows the object's name."""
        try:
            return self.machine.call(verb, data, **arguments)
        except RemoteFailure as error:
            if error.kind == ObjectNotFound.__name__:
                raise KeyError from error
            if error.kind == Exists.__name__:
                raise FileExistsError from error
            raise StoreError(f"the store {self.url} failed: {error.words}") from error
        except Unreachable as error:
            raise StoreError(
                f"the store {self.url} cannot be reached: {error.message}", hint=error.hint
            ) from error
