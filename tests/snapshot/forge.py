"""Snapshots written by hand, so that they can hold what `take` never writes. Their hashes are right."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gofer.core.code.snapshot_names import compute_id, decode_name

Rows = list[Any]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Forge:
    """A store in a folder, and a way to put any manifest into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "packs").mkdir(parents=True)
        (root / "snapshots").mkdir()

    def pack(self, *blobs: bytes, index: Rows | None = None) -> str:
        """A pack of these blobs; its name."""
        rows, offset = [], 0
        for blob in blobs:
            rows.append([sha(blob), offset, len(blob)])
            offset += len(blob)
        text = json.dumps(rows if index is None else index).encode()
        (self.root / "packs" / sha(text)).write_bytes(b"".join(blobs))
        (self.root / "packs" / f"{sha(text)}.idx").write_bytes(text)
        return sha(text)

    def snapshot(
        self,
        folders: dict[str, Any],
        *blobs: bytes,
        packs: list[str] | None = None,
        change: dict[str, Any] | None = None,
    ) -> str:
        """A snapshot of folders given as {path: rows}, its manifest with some values changed; its id."""
        listings = {path: json.dumps(rows).encode() for path, rows in folders.items()}
        named = packs if packs is not None else [self.pack(*blobs)] if blobs else []
        named = [*named, self.pack(*listings.values())]
        pairs = [[path, sha(listing)] for path, listing in listings.items()]
        top = {"format": "gofer-snapshot", "version": 1, "folders": pairs, "packs": named, **(change or {})}
        snapshot_id = compute_id((raw(path), bytes.fromhex(listing)) for path, listing in pairs)
        (self.root / "snapshots" / snapshot_id).write_text(json.dumps(top))
        return snapshot_id


def raw(path: str) -> bytes:
    """The path as the id sees it, whatever it is."""
    try:
        return decode_name(path)
    except ValueError:
        return path.encode("utf-8", "replace")
