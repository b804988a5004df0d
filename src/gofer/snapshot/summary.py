"""What a caller is told about a snapshot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from gofer.agent.manifest import encode_name


class Listings:
    """The folders of a snapshot by path, each with its listing."""

    __slots__ = ("_by_folder",)

    def __init__(self, by_folder: Mapping[bytes, bytes]) -> None:
        self._by_folder = by_folder

    def has(self, path: bytes) -> bool:
        """Whether a file, link or folder is there; yes for what lies behind a link, since nobody knows."""
        if path in self._by_folder:
            return True
        folder, _, name = path.rpartition(b"/")
        while folder not in self._by_folder:
            folder, _, name = folder.rpartition(b"/")
        kind = self._kind(folder, name)
        return kind == "l" or (kind is not None and path == (folder + b"/" + name if folder else name))

    def _kind(self, folder: bytes, name: bytes) -> str | None:
        import json

        encoded = encode_name(name)
        rows = json.loads(self._by_folder.get(folder, b"[]"))
        return next((row[1] for row in rows if row[0] == encoded), None)

    def __repr__(self) -> str:
        return f"<{len(self._by_folder)} folders>"


class Snapshot(NamedTuple):
    """A code folder in a store.

    `sent_files` and `sent_bytes` count contents that the store did not have; listings and the manifest come
    on top. `changed` names files that were edited or removed while they were being read: the snapshot holds
    what was read last. `biggest` are the five largest files. `skipped` are sockets, pipes and devices, each
    with what it is. `commit`, `branch` and `dirty` are None outside a git work tree; `dirty` also when git
    cannot tell.
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

    def has(self, path: str) -> bool:
        """Whether the snapshot holds this path, given from its top and normalised. Blocks on nothing."""
        return path == "." or self.listings.has(os.fsencode(path))
