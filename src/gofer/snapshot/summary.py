"""What a caller is told about a snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gofer.core.snapshot_names import encode_name
from gofer.snapshot.remainder import Remainder


class Listings:
    """The folders of a snapshot by path, with the sha256 of their listings, which are loaded when asked."""

    __slots__ = ("_digests", "_load")

    def __init__(self, digests: Mapping[str, bytes], load: Callable[[], Mapping[bytes, bytes]]) -> None:
        self._digests = digests
        self._load = load

    def has(self, path: str) -> bool:
        """Whether a file, link or folder is there; yes where nobody knows, as for what lies behind a link."""
        if path in self._digests:
            return True
        folder, _, name = path.rpartition("/")
        while folder not in self._digests:
            folder, _, name = folder.rpartition("/")
        listing = self._load().get(self._digests[folder])
        if listing is None:
            return True
        kind = _kind(listing, name)
        return kind == "l" or (kind is not None and path == (folder + "/" + name if folder else name))

    def __repr__(self) -> str:
        return f"<{len(self._digests)} folders>"


def _kind(listing: bytes, name: str) -> str | None:
    import json

    encoded = encode_name(os.fsencode(name))
    return next((row[1] for row in json.loads(listing) if row[0] == encoded), None)


_Encode = Callable[[], bytes]  # in Snapshot, `bytes` is a field


class Snapshot(NamedTuple):
    """A code folder in a store.

    `sent_files` and `sent_bytes` count contents that the store did not have; listings and the manifest come
    on top. `changed` names files that were edited or removed while they were being read: the snapshot holds
    what was read last. `biggest` are the five largest files. `skipped` are sockets, pipes and devices, each
    with what it is. `commit`, `branch` and `dirty` are None outside a git work tree; `dirty` also when git
    cannot tell. `encode_times` gives the times and permission bits of the files, as gofer.core.file_times
    reads them. `remainder` finds what stays behind; it looks at the folder again.
    """

    id: str
    files: int
    bytes: int
    sent_files: int
    sent_bytes: int
    changed: tuple[str, ...]
    biggest: tuple[tuple[str, int], ...]
    commit: str | None
    branch: str | None
    dirty: bool | None
    skipped: tuple[tuple[str, str], ...]
    elapsed_s: float
    listings: Listings
    remainder: Callable[[], Remainder]
    encode_times: _Encode

    def has(self, path: str) -> bool:
        """Whether the snapshot holds this path, given from its top and normalised. Reads a cache."""
        return path == "." or self.listings.has(path)
