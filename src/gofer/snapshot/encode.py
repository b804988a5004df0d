"""Encodes the objects of a snapshot in a store; gofer.core.manifest decodes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from gofer.core.manifest import FORMAT, VERSION
from gofer.core.snapshot_names import encode_name


def to_json(value: object) -> bytes:
    """The only JSON encoder of snapshots, so that equal folders have equal hashes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def write_manifest(
    folders: Sequence[tuple[bytes, bytes]], packs: Iterable[str], *, files: int, size: int
) -> bytes:
    """The manifest of (path, listing's sha256) pairs, in order; `files` and `size` are for people only."""
    return to_json(
        {
            "format": FORMAT,
            "version": VERSION,
            "files": files,
            "bytes": size,
            "folders": [[encode_name(path) if path else "", listing.hex()] for path, listing in folders],
            "packs": sorted(packs),
        }
    )
