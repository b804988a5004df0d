"""The contract of an object store: keys, bytes, and a few methods.

A key is a relative POSIX path without empty, `.` or `..` parts. Every method blocks, may be called from
several threads, and raises only the StoreError family. Writes are atomic: a reader sees the complete old or
the complete new object, whatever is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from gofer.core.store_spec import IdentitySpec, StoreSpec
from gofer.errors import KeyNotFound, StoreError
from gofer.objects.facts import Block as Block
from gofer.objects.facts import BlockRules as BlockRules
from gofer.objects.facts import ObjectInfo as ObjectInfo

if TYPE_CHECKING:
    from gofer.transport.machine import Machine

_HINT = "a key is a relative path like `runs/x/run.json`, without empty, `.` or `..` parts"

# The types that can be sent without a copy.
Bytes: TypeAlias = bytes | bytearray | memoryview


def check_key(key: str) -> str:
    """The key itself; StoreError when it could name a file outside the store, or no file at all.

    Bytes that are not UTF-8 may be in it as surrogates, the way Python reads them from the file system.
    """
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise StoreError(f"{key!a} is not a key: it cannot be encoded as bytes", hint=_HINT) from None
    if "\0" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise StoreError(f"{key!a} is not a key", hint=_HINT)
    return key


def check_prefix(prefix: str) -> str:
    """As `check_key`; an empty prefix means the whole store."""
    return check_key(prefix) if prefix else prefix


def no_such_key(url: str, key: str) -> KeyNotFound:
    """The error of every store for an object that does not exist."""
    return KeyNotFound(f"the store {url} has no object {key!r}")


class Store(Protocol):
    """The methods that every store has, whether it is a folder, memory or a cloud."""

    url: str

    def get(self, key: str) -> bytes:
        """The whole object; KeyNotFound when there is none."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; a negative start counts from the end.

        Fewer bytes at the end of the object, none beyond it. KeyNotFound when there is no object.
        """

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Replace the object; with `new`, create it or raise KeyExists. Atomic between writers too."""

    def head(self, key: str) -> ObjectInfo | None:
        """Size and time; None when there is no object."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key is `prefix` or is in the folder `prefix`, in key order.

        A cloud lists in pages of some thousands, in its own order of names. Keys that it stores under other
        names (control characters, bytes that are not UTF-8) may be in another place of a listing with several
        pages. So a caller must not conclude from the order that an object is missing, and delete something
        for this reason.
        """

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        """The names of the folders directly under the folder `prefix`, in order."""

    def delete(self, keys: Iterable[str]) -> int:
        """Remove objects and return how many existed. Absent objects are ignored."""

    def copy(self, source: str, destination: str) -> None:
        """Copy within the store and replace the destination; KeyNotFound when there is no source."""


@runtime_checkable
class Appends(Protocol):
    """A store whose objects can grow. Each object may have one writer at a time."""

    def append(self, key: str, data: bytes) -> None:
        """Append bytes to the object; create it if needed."""


@runtime_checkable
class ComparesAndSwaps(Protocol):
    """A store with an atomic compare-and-swap, so that two writers do not undo each other's changes."""

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Write `new` if the object still has the bytes `old`, or with None if there is no object.

        Returns whether it did. Atomic between writers; blocks.
        """


@runtime_checkable
class OnDisk(Protocol):
    """A store whose objects are files that this machine can open."""

    def path(self, key: str) -> Path:
        """The path of the object, whether it exists or not."""


@runtime_checkable
class OnMachine(Protocol):
    """A store in a folder of a machine that gofer.transport reaches; `~` is the home there."""

    machine: Machine
    folder: str

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the empty folders at and below `prefix`. Idempotent."""


@runtime_checkable
class Hashes(Protocol):
    """A store that keeps an MD5 and metadata with each object."""

    def put_hashed(
        self, key: str, data: Bytes, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        """As `put`; the service compares the received bytes with the MD5 and refuses other bytes.

        Without `md5` it is computed here. Names in `metadata` are lower-case letters, digits and `_`; values
        are printable ASCII.
        """


@runtime_checkable
class Streams(Protocol):
    """A store for objects that are larger than memory."""

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start`, in pieces of at most 1 MiB. After a lost connection the stream continues.

        The first request is made at once. StoreError when the object is replaced meanwhile.
        """

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """Replace the object by the joined pieces, atomically; return the number of bytes. Memory stays
        bounded.

        Nothing changes when `pieces` raises, or when `md5` is given and the bytes have another.
        """


@runtime_checkable
class ReadsInto(Protocol):
    """A store that reads without a copy, for large objects fetched in ranges."""

    def read_into(self, key: str, start: int, buffer: memoryview, *, etag: str | None = None) -> int:
        """Fill `buffer` from `start`; return the number of bytes, fewer only at the end of the object.

        With `etag`, StoreError when the object has another version.
        """


@runtime_checkable
class Blocks(Protocol):
    """A store with uploads in blocks that survive the process: blocks stay until a commit or an abort.

    The store chooses the id of an upload. A caller that wants to resume keeps the id, with the size and time
    of the file. Services forget uncommitted blocks after about a week (Azure) or by a rule of the bucket
    (S3).
    """

    @property
    def block_rules(self) -> BlockRules:
        """The block sizes that the service accepts."""

    def begin_upload(
        self, key: str, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        """Start an upload for `key` and return its id. Does not change the object."""

    def list_blocks(self, key: str, upload: str) -> list[Block] | None:
        """The blocks that the service has, by number; None when it does not know the upload."""

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        """Send one block, which the service compares with its MD5. Sending it again replaces it."""

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Make the object these blocks, in this order, atomically.

        `md5` and `metadata` are kept with the object: Azure takes them here, S3 only in `begin_upload`. Pass
        them to both where they are known in time.
        """

    def abort_upload(self, key: str, upload: str) -> None:
        """Drop the upload, where the service can. An unknown upload is not an error."""


@runtime_checkable
class Signs(Protocol):
    """A store that makes URLs that give their holder access to one object for a limited time."""

    def sign(self, key: str, *, expires_s: float, method: str = "GET") -> str:
        """The URL. CredentialError when the store's credential cannot give this access to others."""


@runtime_checkable
class CopiesFrom(Protocol):
    """A store that copies from other stores without sending the bytes through this machine."""

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """Let the service fetch the object with its MD5 and metadata. False, with no change, when it cannot.

        Blocks until the copy is complete. KeyNotFound when there is no source.
        """


@runtime_checkable
class Delegates(Protocol):
    """A store that can give access to a machine without settings of its own."""

    def node_spec(
        self, prefix: str = "", *, expires_s: float, write: bool, identity: IdentitySpec | None = None
    ) -> StoreSpec:
        """A spec for `gofer.objects.open_objects` that opens the folder `prefix`, and nothing more where
        possible.

        The spec holds a credential, so it must go only through a private channel. With `identity`, an
        identity that the machine has at the same service, the spec holds no credential and the machine gets
        its own token.
        """


@runtime_checkable
class ListsBeginnings(Protocol):
    """A store that lists by the beginning of a key, which need not be the name of a folder."""

    def list_beginning(self, text: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with `text`, in key order."""


@runtime_checkable
class ListsLevels(Protocol):
    """A store that lists one folder without the folders in it."""

    def list_level(self, prefix: str = "") -> Iterator[ObjectInfo | str]:
        """The objects directly in the folder `prefix`, and the names of its folders."""


@runtime_checkable
class Makes(Protocol):
    """A store whose container or bucket can be created."""

    def make(self) -> bool:
        """Create the container or bucket; False when it exists."""
