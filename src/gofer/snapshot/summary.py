"""The description of a snapshot for callers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gofer.core.code.snapshot_names import decode_name, encode_name
from gofer.snapshot.left_out import LeftOutReport


class Listings:
    """The folders of a snapshot by path, with the sha256 of their listings.

    Loads the listings when needed.
    """

    __slots__ = ("_digests", "_load")

    def __init__(self, digests: Mapping[str, bytes], load: Callable[[], Mapping[bytes, bytes]]) -> None:
        self._digests = digests
        self._load = load

    def has(self, path: str) -> bool:
        """Whether the snapshot has this file, link or folder.

        True also where it is not known, such as behind a link.
        """
        if path in self._digests:
            return True
        folder, _, name = path.rpartition("/")
        # A path below a link or a file is in no listing of its own; find the nearest listed folder.
        while folder not in self._digests:
            folder, _, name = folder.rpartition("/")
        listing = self._load().get(self._digests[folder])
        if listing is None:
            return True
        kind = _kind(listing, name)
        return kind == "l" or (kind is not None and path == (folder + "/" + name if folder else name))

    def entries(self) -> Iterator[tuple[bytes, bool]]:
        """The path of every file, link and folder, and whether it is a folder. KeyError when a listing is not
        cached.
        """
        loaded = self._load()
        for folder, digest in self._digests.items():
            if folder:
                yield os.fsencode(folder), True
            above = os.fsencode(folder + "/" if folder else "")
            for row in json.loads(loaded[digest]):
                yield above + decode_name(row[0]), False

    def __repr__(self) -> str:
        return f"<{len(self._digests)} folders>"


def _kind(listing: bytes, name: str) -> str | None:
    encoded = encode_name(os.fsencode(name))
    return next((row[1] for row in json.loads(listing) if row[0] == encoded), None)


_Encode = Callable[[], bytes]  # in Snapshot, `bytes` is a field


class Snapshot(NamedTuple):
    """A code folder in a store.

    `sent_files` and `sent_bytes` count contents that the store did not have, without listings and the
    manifest. `changed` names files that were edited or removed during the read: the snapshot has what was
    read last. `biggest` are the five largest files, `biggest_folders` the largest folders at the top or the
    folder in each that has nearly everything. `skipped` are sockets, pipes and devices, each with its kind.
    `commit`, `branch` and `dirty` are None outside a git work tree; `dirty` also when git cannot tell.
    `encode_times` returns the times and permission bits of the files, for gofer.core.code.file_times.
    `left_out` finds what is left out; it reads the folder again.
    """

    id: str
    files: int
    bytes: int
    sent_files: int
    sent_bytes: int
    changed: tuple[str, ...]
    biggest: tuple[tuple[str, int], ...]
    biggest_folders: tuple[tuple[str, int], ...]
    commit: str | None
    branch: str | None
    dirty: bool | None
    skipped: tuple[tuple[str, str], ...]
    elapsed_s: float
    listings: Listings
    left_out: Callable[[], LeftOutReport]
    encode_times: _Encode

    def has(self, path: str) -> bool:
        """Whether the snapshot has this normalised path from its top. Reads a cache."""
        return path == "." or self.listings.has(path)
