"""Remembers what each folder looked like, so that an unchanged folder is neither read nor judged again.

A file counts as unchanged when its times, inode, size and mode are the same. If a file was written so shortly
before the read that a later write could have the same time, its stored time is one that never matches. git's
index does the same.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from gofer.snapshot import cachefile
from gofer.snapshot.git import GitMemory

# mtime, ctime (both in ns), inode, size, mode
Signature = tuple[int, int, int, int, int]
FIELDS = 5
# The number of largest files remembered for each folder.
BIGGEST = 5

_KIND = "folder 2"
_LISTINGS_KIND = "listings 1"
_NEVER_NS = -1
# The resolution of the coarsest file system clock in use (FAT, some network shares), in ns.
_RACY_NS = 2_000_000_000


class Record(NamedTuple):
    """One folder. Names are joined by `/`, which no name contains, in the order of the file system.

    `incoming` and `rules` are the fingerprints of the rules above the folder and in it. `skipped` and
    `skipped_folders` are the ignored entries, `only` the folders that are entered only for tracked files,
    `odd` the entries that are neither file, folder nor link. `digest` is the sha256 of the folder's listing.
    """

    incoming: bytes
    rules: bytes
    files: str
    signatures: bytes
    folders: str
    skipped: str
    skipped_folders: str
    only: str
    odd: tuple[tuple[str, str], ...]
    digest: bytes
    entries: int
    size: int
    biggest: tuple[tuple[int, str], ...]


class FolderCache:
    """Everything remembered of one code folder; empty when nothing is."""

    __slots__ = ("git", "records")

    def __init__(self, records: dict[str, Record], git: GitMemory) -> None:
        self.records = records
        self.git = git


def load(cache_dir: str, root: str) -> FolderCache:
    """The cache of the folder `root`, or an empty one. Never fails."""
    saved = cachefile.load(cachefile.path(cache_dir, "folders", root), _KIND)
    # The root is stored too, because the name of the file is only a shortened hash of it.
    if saved is None or saved[0] != root:
        return FolderCache({}, GitMemory())
    return FolderCache({path: Record(*record) for path, record in saved[2].items()}, GitMemory(*saved[1]))


def save(cache_dir: str, root: str, cache: FolderCache) -> None:
    """Replace the cache of the folder `root`. Never fails."""
    records = {path: tuple(record) for path, record in cache.records.items()}
    cachefile.save(cachefile.path(cache_dir, "folders", root), _KIND, (root, tuple(cache.git), records))


def load_listings(cache_dir: str, root: str) -> dict[bytes, bytes]:
    """The listings of the folder `root`, by sha256.

    In a separate file, because an unchanged folder needs none.
    """
    return cachefile.load(cachefile.path(cache_dir, "listings", root), _LISTINGS_KIND) or {}


def save_listings(cache_dir: str, root: str, listings: dict[bytes, bytes]) -> None:
    """Replace the listings of the folder `root`. Never fails."""
    cachefile.save(cachefile.path(cache_dir, "listings", root), _LISTINGS_KIND, listings)


def pack_signatures(values: list[int]) -> bytes:
    """Signatures as bytes, one after the other, for storage and comparison."""
    try:
        return array("q", values).tobytes()
    except OverflowError:  # inode numbers of some network file systems use all 64 bits
        return array("q", [(value + (1 << 63)) % (1 << 64) - (1 << 63) for value in values]).tobytes()


def unpack_signatures(data: bytes) -> list[bytes]:
    """One packed signature for each file."""
    width = FIELDS * 8
    return [data[at : at + width] for at in range(0, len(data), width)]


def unpack_values(data: bytes) -> list[int]:
    """The numbers that were given to `pack_signatures`."""
    values = array("q")
    values.frombytes(data)
    return values.tolist()


def guard(signature: Signature, began_ns: int) -> Signature:
    """The signature to store for a file that was read in a pass that began at `began_ns`."""
    if max(signature[0], signature[1]) + _RACY_NS >= began_ns:
        return (_NEVER_NS, *signature[1:])
    return signature


def join_names(names: list[str]) -> str:
    return "/".join(names)


def split_names(joined: str) -> list[str]:
    return joined.split("/") if joined else []
