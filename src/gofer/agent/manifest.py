"""What a snapshot is made of: folders, their listings, and the id that names them all.

A snapshot is a tree of hashes. Each folder has a *listing*, one JSON line naming its files and links with
their content hashes. The *manifest* names every folder with the hash of its listing, and the packs that hold
listings and contents. The id is the hash of the folders' paths and listing hashes, so it depends on names,
contents, execute bits and link targets alone: not on packing, times or the machine.

Reading trusts nothing but the id: every hash on the way down is checked, and every name must be one that
cannot leave its folder. This module reads through a callable and knows nothing of stores or destinations.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

FORMAT = "gofer-snapshot"
VERSION = 1
# A file longer than this is cut into pieces of this length, so that nothing larger is ever held in memory.
CHUNK_BYTES = 16 * 1024 * 1024

_MOST_METADATA_BYTES = 512 * 1024 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_HASH = re.compile(r"[0-9a-f]{64}")

# (key, start, length) -> at most `length` bytes; fewer only at the end of the object.
Read = Callable[[str, int, int], bytes]


class ManifestError(ValueError):
    """A manifest, listing or pack index that is damaged, missing, or asks for something unsafe."""


class Entry(NamedTuple):
    """One file or link. `kind` is `f` (file), `x` (executable file) or `l` (link, with `target`).

    `blobs` are the hashes of the file's pieces in order: none for an empty file, one up to CHUNK_BYTES.
    """

    path: bytes
    kind: str
    size: int
    blobs: Tuple[str, ...]
    target: bytes


class Place(NamedTuple):
    """Where the bytes of a blob lie."""

    pack: str
    offset: int
    length: int


class Manifest(NamedTuple):
    """A whole snapshot, checked against its id. `folders` has every folder below the top, parents first."""

    id: str
    folders: Tuple[bytes, ...]
    entries: Tuple[Entry, ...]
    places: Dict[str, Place]


class Differences(NamedTuple):
    """Paths, in order, that one snapshot has and another has not or has otherwise."""

    added: Tuple[str, ...]
    removed: Tuple[str, ...]
    changed: Tuple[str, ...]


def manifest_key(snapshot_id: str) -> str:
    return "snapshots/" + snapshot_id


def pack_key(pack: str) -> str:
    return "packs/" + pack


def index_key(pack: str) -> str:
    return "packs/" + pack + ".idx"


def encode_name(name: bytes) -> str:
    """The name as JSON text: itself when UTF-8, else a NUL (no name holds one) and base64."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return "\0" + binascii.b2a_base64(name, newline=False).decode("ascii")


def decode_name(text: object) -> bytes:
    """The bytes that `encode_name` was given; ManifestError for anything it cannot have written."""
    try:
        if not isinstance(text, str):
            raise ValueError("not a string")
        name = binascii.a2b_base64(text[1:].encode("ascii")) if text[:1] == "\0" else text.encode("utf-8")
    except ValueError as error:
        raise ManifestError(f"a name cannot be decoded: {text!r}") from error
    if not name or b"\0" in name:
        raise ManifestError(f"a name is empty or holds a NUL: {text!r}")
    return name


def compute_id(folders: Iterable[Tuple[bytes, bytes]]) -> str:
    """The id of (path, listing's sha256) pairs, which must be in the order of their paths."""
    digest = hashlib.sha256(b"gofer snapshot 1\0")
    for path, listing in folders:
        digest.update(path + b"\0" + listing)
    return digest.hexdigest()


def load(read: Read, snapshot_id: str) -> Manifest:
    """Everything about a snapshot but the contents; ManifestError when anything does not fit the id."""
    folders, packs = _read_top(read, snapshot_id)
    places: Dict[str, Place] = {}
    for pack in packs:
        places.update(_read_index(read, pack))
    entries: List[Entry] = []
    known = {path for path, _ in folders}
    for path, listing in folders:
        if path and path.rpartition(b"/")[0] not in known:
            raise ManifestError(f"the folder above {_show(path)} is not in the manifest")
        for entry in parse_listing(read_blob(read, places, listing), path):
            if entry.path in known:
                raise ManifestError(f"{_show(entry.path)} is both a folder and a file")
            entries.append(entry)
    return Manifest(snapshot_id, tuple(path for path, _ in folders if path), tuple(entries), places)


def read_packs(read: Read, snapshot_id: str) -> Tuple[str, ...]:
    """The packs a stored manifest names; ManifestError when it does not fit its id."""
    return _read_top(read, snapshot_id)[1]


def read_blob(read: Read, places: Dict[str, Place], blob: str) -> bytes:
    """The bytes whose sha256 is `blob`; ManifestError when they are not in any pack, or are others."""
    place = places.get(blob)
    if place is None:
        raise ManifestError(f"no pack of the snapshot holds {blob}")
    data = read(pack_key(place.pack), place.offset, place.length)
    if hashlib.sha256(data).hexdigest() != blob:
        raise ManifestError(f"the pack {place.pack} is damaged: {blob} was expected at {place.offset}")
    return data


def parse_listing(data: bytes, folder: bytes) -> List[Entry]:
    """The entries of one folder; ManifestError when a row is ill-formed, unsafe, doubled or out of order."""
    rows = _parse(data, "a listing")
    if not isinstance(rows, list):
        raise ManifestError(f"the listing of {_show(folder)} is not a list")
    prefix = folder + b"/" if folder else b""
    entries: List[Entry] = []
    last = b""
    for row in rows:
        name = _check_part(decode_name(row[0] if isinstance(row, list) and row else None))
        if name <= last:
            raise ManifestError(f"the listing of {_show(folder)} is out of order at {_show(name)}")
        entries.append(_parse_row(row, prefix + name))
        last = name
    return entries


def list_files(manifest: Manifest) -> List[Entry]:
    """The files and links, in the order of their paths."""
    return sorted(manifest.entries)


def differences(old: Manifest, new: Manifest) -> Differences:
    """What must be added to, removed from and changed in `old` to become `new`; folders do not count."""
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
    if not _HASH.fullmatch(snapshot_id):
        raise ManifestError(f"`{snapshot_id}` is not a snapshot's id")
    top = _parse(_read_all(read, manifest_key(snapshot_id)), "the manifest")
    if not isinstance(top, dict) or top.get("format") != FORMAT or top.get("version") != VERSION:
        raise ManifestError(f"snapshots/{snapshot_id} is not a manifest this version of gofer reads")
    rows, packs = top.get("folders"), top.get("packs")
    if not isinstance(rows, list) or not isinstance(packs, list):
        raise ManifestError(f"the manifest {snapshot_id} lacks its folders or packs")
    folders = [_parse_folder(row) for row in rows]
    if any(first[0] >= second[0] for first, second in zip(folders, folders[1:])):
        raise ManifestError(f"the folders of the manifest {snapshot_id} are doubled or out of order")
    if compute_id((path, bytes.fromhex(listing)) for path, listing in folders) != snapshot_id:
        raise ManifestError(f"the manifest {snapshot_id} does not fit its id")
    return folders, tuple(_check_hash(pack) for pack in packs)


def _read_index(read: Read, pack: str) -> Dict[str, Place]:
    return parse_index(_read_all(read, index_key(pack)), pack)


def parse_index(data: bytes, pack: str) -> Dict[str, Place]:
    """Where each blob of a pack lies, from the bytes of its index, whose sha256 is the pack's name.

    The index determines the pack's bytes, so its hash names both. ManifestError when it is not sound.
    """
    if hashlib.sha256(data).hexdigest() != pack:
        raise ManifestError(f"the index of the pack {pack} is damaged")
    rows = _parse(data, f"the index of the pack {pack}")
    try:
        places = {
            _check_hash(blob): Place(pack, _count(offset), _count(length)) for blob, offset, length in rows
        }
    except (TypeError, ValueError) as error:
        raise ManifestError(f"the index of the pack {pack} is damaged") from error
    if any(place.length > CHUNK_BYTES for place in places.values()):
        raise ManifestError(f"the index of the pack {pack} names a blob that is too long")
    return places


def _parse_folder(row: Any) -> Tuple[bytes, str]:
    if not isinstance(row, list) or len(row) != 2:
        raise ManifestError("a folder of the manifest is ill-formed")
    if row[0] == "":
        return b"", _check_hash(row[1])
    path = decode_name(row[0])
    for part in path.split(b"/"):
        _check_part(part)
    return path, _check_hash(row[1])


def _parse_row(row: List[Any], path: bytes) -> Entry:
    kind = row[1] if len(row) > 2 else None
    if kind == "l" and len(row) == 3:
        return Entry(path, "l", 0, (), decode_name(row[2]))
    if kind not in ("f", "x"):
        raise ManifestError(f"{_show(path)} is neither a file nor a link")
    size, blobs = _count(row[2]), tuple(_check_hash(blob) for blob in row[3:])
    if len(blobs) != -(-size // CHUNK_BYTES):
        raise ManifestError(f"{_show(path)} has {len(blobs)} pieces for {size} bytes")
    return Entry(path, kind, size, blobs, b"")


def _check_part(name: bytes) -> bytes:
    if name in (b"", b".", b"..") or b"/" in name:
        raise ManifestError(f"{_show(name)} is not the name of a file in its folder")
    return name


def _check_hash(value: Any) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ManifestError(f"{value!r:.80} is not a hash")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ManifestError(f"{value!r:.80} is not a size")
    return value


def _parse(data: bytes, what: str) -> Any:
    import json  # loaded late: to name an unchanged snapshot takes none of it

    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{what} is not JSON") from error


def _read_all(read: Read, key: str) -> bytes:
    pieces: List[bytes] = []
    size = 0
    while size <= _MOST_METADATA_BYTES:
        piece = read(key, size, _PIECE_BYTES)
        pieces.append(piece)
        size += len(piece)
        if len(piece) < _PIECE_BYTES:
            return b"".join(pieces)
    raise ManifestError(f"{key} is too large to be true")


def _show(name: bytes) -> str:
    return "`" + ascii(os.fsdecode(name))[1:-1] + "`"
