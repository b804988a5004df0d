"""The parts of a snapshot: folders, their listings, and the id over all of them.

A snapshot is a tree of hashes. Each folder has a *listing*, one JSON line naming its files and links with
their content hashes. The *manifest* names every folder with the hash of its listing, and the packs that hold
listings and contents. The id is the hash of the folders' paths and listing hashes, so it depends on names,
contents, execute bits and link targets alone: not on packing, times or the machine.

Reading trusts nothing but the id: every hash on the way down is checked, and every name must be one that
cannot leave its folder. This module reads through a callable and knows nothing of stores or destinations.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, NamedTuple, Tuple

from gofer.core.code.packs import (
    CHUNK_BYTES,
    BlobRange,
    Read,
    check_count,
    check_hash,
    parse_json,
    read_blobs,
    read_object,
    read_places,
)
from gofer.core.code.snapshot_names import ManifestError, compute_id, decode_name, encode_name, manifest_key

__all__ = [
    "FORMAT",
    "VERSION",
    "Differences",
    "Manifest",
    "ManifestEntry",
    "ManifestError",
    "compute_id",
    "decode_name",
    "differences",
    "encode_name",
    "list_files",
    "load",
    "manifest_key",
    "parse_listing",
    "read_packs",
]

FORMAT = "gofer-snapshot"
VERSION = 1


class ManifestEntry(NamedTuple):
    """One file or link. `kind` is `f` (file), `x` (executable file) or `l` (link, with `target`).

    `blobs` are the hashes of the file's pieces in order: none for an empty file, one up to CHUNK_BYTES.
    """

    path: bytes
    kind: str
    size: int
    blobs: Tuple[str, ...]
    target: bytes


class Manifest(NamedTuple):
    """A whole snapshot, checked against its id. `folders` has every folder below the top, parents first."""

    id: str
    folders: Tuple[bytes, ...]
    entries: Tuple[ManifestEntry, ...]
    places: Dict[str, BlobRange]


class Differences(NamedTuple):
    """The paths in which two snapshots differ, each list in order."""

    added: Tuple[str, ...]
    removed: Tuple[str, ...]
    changed: Tuple[str, ...]


def load(read: Read, snapshot_id: str) -> Manifest:
    """Everything about a snapshot except the contents of its files; ManifestError when anything does not fit
    the id.
    """
    folders, packs = _read_top(read, snapshot_id)
    places = read_places(read, packs)
    listings = {blob: bytes(data) for blob, data in read_blobs(read, places, [blob for _, blob in folders])}
    known = {path for path, _ in folders}
    entries: List[ManifestEntry] = []
    for path, listing in folders:
        if path and path.rpartition(b"/")[0] not in known:
            raise ManifestError(f"the folder above {_show(path)} is not in the manifest")
        for entry in parse_listing(listings[listing], path):
            if entry.path in known:
                raise ManifestError(f"{_show(entry.path)} is both a folder and a file")
            entries.append(entry)
    return Manifest(snapshot_id, tuple(path for path, _ in folders if path), tuple(entries), places)


def read_packs(read: Read, snapshot_id: str) -> Tuple[str, ...]:
    """The packs that a stored manifest names; ManifestError when the manifest does not fit its id."""
    return _read_top(read, snapshot_id)[1]


def parse_listing(data: bytes, folder: bytes) -> List[ManifestEntry]:
    """The entries of one folder; ManifestError when a row is malformed, unsafe, repeated or out of order."""
    rows = parse_json(data, "a listing")
    if not isinstance(rows, list):
        raise ManifestError(f"the listing of {_show(folder)} is not a list")
    prefix = folder + b"/" if folder else b""
    entries: List[ManifestEntry] = []
    last = b""
    for row in rows:
        name = _check_part(decode_name(row[0] if isinstance(row, list) and row else None))
        if name <= last:
            raise ManifestError(f"the listing of {_show(folder)} is out of order at {_show(name)}")
        entries.append(_parse_row(row, prefix + name))
        last = name
    return entries


def list_files(manifest: Manifest) -> List[ManifestEntry]:
    """The files and links, in the order of their paths."""
    return sorted(manifest.entries)


def differences(old: Manifest, new: Manifest) -> Differences:
    """What must be added to, removed from and changed in `old` to get `new`. Folders are not compared."""
    before = {entry.path: entry for entry in old.entries}
    after = {entry.path: entry for entry in new.entries}
    both = before.keys() & after.keys()
    return Differences(
        _names(after.keys() - both),
        _names(before.keys() - both),
        _names(path for path in both if before[path] != after[path]),
    )


def _names(paths: Iterable[bytes]) -> Tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in sorted(paths))


def _read_top(read: Read, snapshot_id: str) -> Tuple[List[Tuple[bytes, str]], Tuple[str, ...]]:
    key = manifest_key(check_hash(snapshot_id))
    top = parse_json(read_object(read, key), key)
    if not isinstance(top, dict) or top.get("format") != FORMAT or top.get("version") != VERSION:
        raise ManifestError(f"{key} is not a manifest that this version of gofer reads")
    rows, packs = top.get("folders"), top.get("packs")
    if not isinstance(rows, list) or not isinstance(packs, list):
        raise ManifestError(f"{key} lacks its folders or packs")
    folders = [_parse_folder(row) for row in rows]
    if any(first[0] >= second[0] for first, second in zip(folders, folders[1:])):
        raise ManifestError(f"the folders of {key} are doubled or out of order")
    if compute_id((path, bytes.fromhex(listing)) for path, listing in folders) != snapshot_id:
        raise ManifestError(f"{key} does not fit its id")
    return folders, tuple(check_hash(pack) for pack in packs)


def _parse_folder(row: object) -> Tuple[bytes, str]:
    if not isinstance(row, list) or len(row) != 2:
        raise ManifestError("a folder of the manifest is ill-formed")
    if row[0] == "":
        return b"", check_hash(row[1])
    path = decode_name(row[0])
    for part in path.split(b"/"):
        _check_part(part)
    return path, check_hash(row[1])


def _parse_row(row: List[object], path: bytes) -> ManifestEntry:
    kind = row[1] if len(row) > 2 else None
    if kind == "l" and len(row) == 3:
        return ManifestEntry(path, "l", 0, (), decode_name(row[2]))
    if kind not in ("f", "x"):
        raise ManifestError(f"{_show(path)} is neither a file nor a link")
    size, blobs = check_count(row[2]), tuple(check_hash(blob) for blob in row[3:])
    if len(blobs) != -(-size // CHUNK_BYTES):
        raise ManifestError(f"{_show(path)} has {len(blobs)} pieces for {size} bytes")
    return ManifestEntry(path, kind, size, blobs, b"")


def _check_part(name: bytes) -> bytes:
    if name in (b"", b".", b"..") or b"/" in name:
        raise ManifestError(f"{_show(name)} is not the name of a file in its folder")
    return name


def _show(name: bytes) -> str:
    return "`" + ascii(os.fsdecode(name))[1:-1] + "`"
