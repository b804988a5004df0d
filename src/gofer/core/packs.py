"""Packs: objects that hold the bytes of many files, each with an index of what lies where.

A blob is some bytes named by their sha256. A pack is named by the sha256 of its index, which determines the
pack's bytes. Nothing read here is believed before its hash was checked.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from gofer.core import json_text
from gofer.core.snapshot_names import ManifestError, index_key, pack_key

# A file longer than this is cut into pieces of this length, so that nothing larger is ever held in memory.
CHUNK_BYTES = 16 * 1024 * 1024

# Bytes between two wanted blobs that are cheaper to read along than to ask around.
_GAP_BYTES = 64 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_MOST_METADATA_BYTES = 512 * 1024 * 1024
_HASH = re.compile(r"[0-9a-f]{64}")

# (key, start, length) -> at most `length` bytes; fewer only at the end of the object.
Read = Callable[[str, int, int], bytes]


class BlobRange(NamedTuple):
    """Where the bytes of a blob lie."""

    pack: str
    offset: int
    length: int


def read_places(read: Read, packs: Iterable[str]) -> Dict[str, BlobRange]:
    """Where each blob of these packs lies; ManifestError when an index is missing or not sound."""
    places: Dict[str, BlobRange] = {}
    for pack in packs:
        places.update(parse_index(read_object(read, index_key(pack)), pack))
    return places


def parse_index(data: bytes, pack: str) -> Dict[str, BlobRange]:
    """Where each blob of a pack lies, from the bytes of its index; ManifestError when it is not sound."""
    if hashlib.sha256(data).hexdigest() != pack:
        raise ManifestError(f"the index of the pack {pack} is damaged")
    rows = parse_json(data, f"the index of the pack {pack}")
    try:
        places = {
            check_hash(blob): BlobRange(pack, check_count(at), check_count(size)) for blob, at, size in rows
        }
    except (TypeError, ValueError) as error:
        raise ManifestError(f"the index of the pack {pack} is not one") from error
    if any(place.length > CHUNK_BYTES for place in places.values()):
        raise ManifestError(f"the index of the pack {pack} names a blob that is too long")
    return places


def read_blobs(
    read: Read, places: Dict[str, BlobRange], blobs: Iterable[str]
) -> Iterator[Tuple[str, memoryview]]:
    """Each blob once with its bytes, in the order they lie, neighbours read together, all hashes checked.

    ManifestError when a blob is in no pack or its bytes are others.
    """
    wanted = set(blobs)
    missing = wanted - places.keys()
    if missing:
        raise ManifestError(f"no pack of the snapshot holds {min(missing)}")
    for run in _runs(sorted((places[blob], blob) for blob in wanted)):
        start = run[0][0].offset
        end = max(place.offset + place.length for place, _ in run)
        data = memoryview(read(pack_key(run[0][0].pack), start, end - start))
        for place, blob in run:
            piece = data[place.offset - start : place.offset - start + place.length]
            if hashlib.sha256(piece).hexdigest() != blob:
                raise ManifestError(f"the pack {place.pack} is damaged at {place.offset}")
            yield blob, piece


def _runs(blobs: List[Tuple[BlobRange, str]]) -> Iterator[List[Tuple[BlobRange, str]]]:
    """Neighbours that one read brings in, at most about CHUNK_BYTES at once."""
    run: List[Tuple[BlobRange, str]] = []
    end = 0
    for place, blob in blobs:
        fits = run and place.pack == run[0][0].pack and place.offset <= end + _GAP_BYTES
        if not fits or place.offset + place.length > run[0][0].offset + CHUNK_BYTES:
            if run:
                yield run
            run, end = [], 0
        run.append((place, blob))
        end = max(end, place.offset + place.length)
    if run:
        yield run


def read_object(read: Read, key: str) -> bytes:
    """All of an object whose size is not known beforehand."""
    pieces: List[bytes] = []
    size = 0
    while size <= _MOST_METADATA_BYTES:
        piece = read(key, size, _PIECE_BYTES)
        pieces.append(piece)
        size += len(piece)
        if len(piece) < _PIECE_BYTES:
            return b"".join(pieces)
    raise ManifestError(f"{key} is too large to be true")


def parse_json(data: bytes, what: str) -> Any:
    try:
        return json_text.parse_json(data.decode("utf-8"))
    except ValueError as error:
        raise ManifestError(f"{what} is not JSON") from error


def check_hash(value: Any) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ManifestError(f"{value!r:.80} is not a hash")
    return value


def check_count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ManifestError(f"{value!r:.80} is not a size")
    return value
