"""Packs: objects that hold the bytes of many files, each with an index of the places of the files.

A blob is a sequence of bytes, named by its sha256. A pack is named by the sha256 of its index, which
determines the bytes of the pack. Nothing that is read here is used before its hash was checked.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from gofer.core import json_text
from gofer.core.code.snapshot_names import ManifestError, index_key, pack_key

# A longer file is cut into pieces of this length, so that memory never holds more at once.
CHUNK_BYTES = 16 * 1024 * 1024

# A gap of at most this many bytes between two wanted blobs is read along: that is cheaper than two reads.
_GAP_BYTES = 64 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_MOST_METADATA_BYTES = 512 * 1024 * 1024
_HASH = re.compile(r"[0-9a-f]{64}")

# (key, start, length) -> at most `length` bytes; fewer only at the end of the object.
Read = Callable[[str, int, int], bytes]


class BlobRange(NamedTuple):
    """The place of a blob's bytes in a pack."""

    pack: str
    offset: int
    length: int


def read_places(read: Read, packs: Iterable[str]) -> Dict[str, BlobRange]:
    """The place of each blob of these packs; ManifestError when an index is missing or damaged."""
    places: Dict[str, BlobRange] = {}
    for pack in packs:
        places.update(parse_index(read_object(read, index_key(pack)), pack))
    return places


def parse_index(data: bytes, pack: str) -> Dict[str, BlobRange]:
    """The place of each blob of a pack, from the bytes of its index; ManifestError when the index is
    damaged.
    """
    if hashlib.sha256(data).hexdigest() != pack:
        raise ManifestError(f"the index of the pack {pack} is damaged")
    rows = parse_json(data, f"the index of the pack {pack}")
    try:
        places = {
            check_hash(blob): BlobRange(pack, check_count(at), check_count(size)) for blob, at, size in rows
        }
    except (TypeError, ValueError) as error:
        raise ManifestError(f"the index of the pack {pack} is malformed") from error
    # An offset beyond 64 bits would be an OverflowError of the system call that reads there.
    if any(place.length > CHUNK_BYTES or place.offset >= 1 << 62 for place in places.values()):
        raise ManifestError(f"the index of the pack {pack} names a blob that is too long or too far")
    return places


def read_blobs(
    read: Read, places: Dict[str, BlobRange], blobs: Iterable[str]
) -> Iterator[Tuple[str, memoryview]]:
    """Each wanted blob once with its bytes, in the order of the packs. Neighbours are read together, and
    every hash is checked.

    ManifestError when a blob is in no pack or its bytes do not fit its hash.
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
    """Groups of neighbouring blobs, each for one read of at most about CHUNK_BYTES."""
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
    """A whole object, whose size need not be known. ManifestError when it is larger than any metadata can
    be.
    """
    pieces: List[bytes] = []
    size = 0
    while size <= _MOST_METADATA_BYTES:
        piece = read(key, size, _PIECE_BYTES)
        pieces.append(piece)
        size += len(piece)
        if len(piece) < _PIECE_BYTES:
            return b"".join(pieces)
    raise ManifestError(f"{key} is larger than {_MOST_METADATA_BYTES} bytes")


def parse_json(data: bytes, what: str) -> Any:
    try:
        return json_text.parse_json(data.decode("utf-8"))
    except ValueError as error:
        raise ManifestError(f"{what} is not JSON") from error


def check_hash(value: object) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ManifestError(f"{value!r:.80} is not a hash")
    return value


def check_count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ManifestError(f"{value!r:.80} is not a size")
    return value
