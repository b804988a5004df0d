"""The contract of an object store: keys, bytes, few verbs.

A key is a relative POSIX path without empty, `.` or `..` parts. Every verb blocks, may be called from
several threads, and raises only the StoreError family. Writes are atomic: a reader sees the whole old or
the whole new object, never a part, whatever is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from gofer.objects.facts import Block as Block
from gofer.objects.facts import BlockRules as BlockRules
from gofer.objects.facts import ObjectInfo as ObjectInfo

if TYPE_CHECKING:
    from gofer.transport.machine import Machine

# What can be sent without copying it first.
Bytes: TypeAlias = bytes | bytearray | memoryview


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
        """Every object whose key is `prefix` or lies under the folder `prefix`, in key order.

        A cloud lists in pages of some thousands in its own order of names. Names it cannot hold as they are
        (control characters, bytes that are not UTF-8) may stand elsewhere in a listing of several pages, so
        nothing may be deleted for not having been met on the way.
        """

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
class ComparesAndSwaps(Protocol):
    """A store in which two writers of one object cannot undo each other's change."""

    def compare_and_swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Write `new` if the object still has the bytes `old`, or with None if there is none.

        False, and nothing done, when not. Atomic between writers; blocks.
        """


@runtime_checkable
class OnDisk(Protocol):
    """A store whose objects are files that this machine can open."""

    def path(self, key: str) -> Path:
        """Where the object is or would be."""


@runtime_checkable
class OnMachine(Protocol):
    """A store that is a folder of a machine that gofer.transport reaches; `~` in it is the home there."""

    machine: Machine
    folder: str


@runtime_checkable
class Hashes(Protocol):
    """A store that keeps an MD5 and a few words beside each object."""

    def put_hashed(
        self, key: str, data: Bytes, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        """As `put`; the service itself compares the bytes it received with the MD5 and refuses others.

        Without `md5` it is computed here. Names in `metadata` are lower case letters, digits and `_`;
        values are printable ASCII.
        """


@runtime_checkable
class Streams(Protocol):
    """Objects larger than memory."""

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start`, in pieces of at most 1 MiB; a cut connection is resumed where it broke.

        StoreError when the object is replaced meanwhile. The first piece's request is made at once.
        """

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """Replace the object by the pieces joined, atomically; the bytes written. Memory stays bounded.

        Nothing is changed when `pieces` raises, or when `md5` is given and is not that of the bytes.
        """


@runtime_checkable
class ReadsInto(Protocol):
    """Reads without a copy, for large objects fetched in ranges."""

    def read_into(self, key: str, start: int, buffer: memoryview, *, etag: str | None = None) -> int:
        """Fill `buffer` from `start`; the bytes read, fewer only at the object's end.

        With `etag`, StoreError when the object is not that version any more.
        """


@runtime_checkable
class Blocks(Protocol):
    """Uploads in blocks that survive the process: what was sent is there until committed or abandoned.

    An upload is a word of the store's choosing; who wants to resume keeps it, with the size and time of the
    file it belongs to. Services forget uncommitted blocks after about a week (Azure) or by a rule (S3).
    """

    @property
    def block_rules(self) -> BlockRules:
        """The sizes the service takes."""

    def begin_upload(
        self, key: str, *, md5: bytes | None = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        """A new upload for `key`. The object itself is not touched."""

    def list_blocks(self, key: str, upload: str) -> list[Block] | None:
        """What the service has of the upload, by number; None when it knows nothing of it."""

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        """Send one block, compared by the service with its MD5; sending it again replaces it."""

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """The object is now these blocks, in this order, at once.

        `md5` and `metadata` are kept with it: Azure takes them here, S3 only in `begin_upload`. Give them to
        both where they are known by then.
        """

    def abort_upload(self, key: str, upload: str) -> None:
        """Forget the upload where the service can; no error when it is unknown."""


@runtime_checkable
class Signs(Protocol):
    """Addresses that open one object for a while, for whoever holds them."""

    def sign(self, key: str, *, expires_s: float, method: str = "GET") -> str:
        """The URL. CredentialError when what the store is opened with cannot give such rights away."""


@runtime_checkable
class CopiesFrom(Protocol):
    """Copies between stores that do not pass through this machine."""

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """Have the service fetch the object, MD5 and metadata with it; False when it cannot, nothing done.

        Blocks until the copy is whole. KeyNotFound when the source is absent.
        """


@runtime_checkable
class Delegates(Protocol):
    """Access for a machine that has no settings of its own."""

    def node_spec(
        self, prefix: str = "", *, expires_s: float, write: bool, identity: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What `gofer.objects.open_objects` takes to see the folder `prefix` and no more, if possible.

        It holds a credential: only ever through a private channel. With `identity`, which the machine has of
        its service, and in a store of the same service, it holds none, and the machine asks for its own.
        """


@runtime_checkable
class ListsBeginnings(Protocol):
    """Listings by the beginning of a key, which need not be a whole folder's name."""

    def list_beginning(self, text: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with `text`, in key order."""


@runtime_checkable
class ListsLevels(Protocol):
    """Listings of one folder without what lies deeper."""

    def list_level(self, prefix: str = "") -> Iterator[ObjectInfo | str]:
        """What lies directly in the folder `prefix`: its objects, and the names of its folders."""


@runtime_checkable
class Makes(Protocol):
    """A store whose container can be made."""

    def make(self) -> bool:
        """Make the container or bucket; False when it was there."""
