"""The index of a packed folder: sorted names, and for each the place of its bytes. Pure.

The format: a line that names it; a line of JSON (counts, the packs, the checksum of the rest); and columns
compressed with zlib: names between NUL bytes, arrays of little-endian numbers, 16-byte MD5 sums. A file that
does not fit into its pack continues in the next pack of the list. Columns, because 100,000 files then load in
some tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from gofer.core.json_text import parse_json
from gofer.errors import StoreError

FOLDER = ".gofer-pack"
MAGIC = b"gofer packs 1\n"
MOST_PACK_BYTES = 64 << 20
_MOST_BYTES = 4 << 30
_DIGEST = 16
# Parts of a name that could lead to another folder, or name no file.
_ODD_PART = re.compile(rb"(?:\A|[\0/])\.{0,2}(?:[\0/]|\Z)")
_PACK_NAME = re.compile(r"[0-9a-f]{64}")
# (letter, bytes) of each column of numbers: pack, offset, size, time in nanoseconds, permissions
_COLUMNS = (("I", 4), ("Q", 8), ("Q", 8), ("q", 8), ("H", 2))


class Pack(NamedTuple):
    """One pack: an object with bytes of files."""

    name: str
    size: int


class Packed(NamedTuple):
    """One file: `size` bytes from `offset` in pack number `pack`, continued in the packs after it."""

    name: bytes
    pack: int
    offset: int
    size: int
    modified_ns: int
    mode: int
    md5: bytes


class Piece(NamedTuple):
    """The part of a file that is in one pack."""

    pack: int
    offset: int
    length: int


class Index:
    """All files of a packed folder, sorted by the bytes of their names. Immutable; threads may share it."""

    def __init__(self, packs: Sequence[Pack], files: Iterable[Packed] = ()) -> None:
        ordered = sorted(files)
        self.packs = tuple(packs)
        self.names = [file.name for file in ordered]
        self._columns = [
            array(letter, (int(file[at]) for file in ordered)) for at, (letter, _) in enumerate(_COLUMNS, 1)
        ]
        self._digests = b"".join(file.md5 for file in ordered)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Packed]:
        return (self[at] for at in range(len(self.names)))

    def __getitem__(self, at: int) -> Packed:
        pack, offset, size, modified, mode = (column[at] for column in self._columns)
        return Packed(
            self.names[at],
            pack,
            offset,
            size,
            modified,
            mode,
            self._digests[at * _DIGEST : (at + 1) * _DIGEST],
        )

    def find(self, name: bytes) -> Packed | None:
        at = bisect_left(self.names, name)
        return self[at] if at < len(self.names) and self.names[at] == name else None

    def under(self, folder: bytes) -> Iterator[Packed]:
        """The file of that name, and the files in the folder of that name; all files for an empty name."""
        if not folder:
            yield from self
            return
        exact = self.find(folder)
        if exact:
            yield exact
        # `0` is the character after `/`, so this is the range of names that begin with `folder/`.
        for at in range(bisect_left(self.names, folder + b"/"), bisect_left(self.names, folder + b"0")):
            yield self[at]

    def beginning(self, text: bytes) -> Iterator[Packed]:
        """The files whose names begin with `text`."""
        for at in range(bisect_left(self.names, text), len(self.names)):
            if not self.names[at].startswith(text):
                return
            yield self[at]

    def pieces(self, file: Packed) -> Iterator[Piece]:
        """The places of the file's bytes, in order; none for an empty file."""
        pack, offset, rest = file.pack, file.offset, file.size
        while rest:
            length = min(rest, self.packs[pack].size - offset)
            yield Piece(pack, offset, length)
            pack, offset, rest = pack + 1, 0, rest - length

    def live_bytes(self) -> list[int]:
        """For each pack, the number of its bytes that belong to files."""
        live = [0] * len(self.packs)
        for file in self:
            for piece in self.pieces(file):
                live[piece.pack] += piece.length
        return live

    def encode(self) -> bytes:
        names = b"\0".join(self.names)
        body = zlib.compress(b"".join([names, *map(_little, self._columns), self._digests]), 6)
        header = {
            "files": len(self.names),
            "names": len(names),
            "packs": [list(pack) for pack in self.packs],
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        return MAGIC + json.dumps(header).encode() + b"\n" + body

    @classmethod
    def decode(cls, data: bytes, where: str) -> Index:
        """The index in `data`.

        StoreError, which names `where`, when it is damaged or has names outside its folder.
        """
        try:
            index = cls._decode(data)
            _check(index)
        except (ValueError, KeyError, TypeError, OverflowError, zlib.error) as error:
            raise StoreError(
                f"the index {where} cannot be read: {error}", hint="`gofer u --pack` writes a new index"
            ) from None
        return index

    @classmethod
    def _decode(cls, data: bytes) -> Index:
        if not data.startswith(MAGIC):
            raise ValueError("it has another format, or was written by a newer gofer")
        line, _, body = data[len(MAGIC) :].partition(b"\n")
        header = parse_json(line)
        if hashlib.sha256(body).hexdigest() != header["sha256"]:
            raise ValueError("its checksum is wrong")
        files, at = int(header["files"]), int(header["names"])
        whole = at + files * (sum(width for _, width in _COLUMNS) + _DIGEST)
        if not 0 <= at <= whole <= _MOST_BYTES:
            raise ValueError("it claims to be too large")
        # A limit for the decompressed size, so that a forged index cannot fill the memory.
        raw = zlib.decompressobj().decompress(body, whole + 1)
        if len(raw) != whole:
            raise ValueError("its length is wrong")
        index = cls([Pack(str(name), int(size)) for name, size in header["packs"]])
        index.names = raw[:at].split(b"\0") if files else []
        for number, (letter, width) in enumerate(_COLUMNS):
            index._columns[number] = _native(letter, raw[at : at + files * width])
            at += files * width
        index._digests = raw[at:]
        return index


def _check(index: Index) -> None:
    """Raise ValueError for names and places that gofer never writes."""
    names = index.names
    if len(names) != len(index._columns[0]) or any(a >= b for a, b in pairwise(names)):
        raise ValueError("its names are not in order")
    if names and _ODD_PART.search(b"\0".join(names)):
        raise ValueError("it contains a name outside its folder")
    if any(not _PACK_NAME.fullmatch(p.name) or not 0 < p.size <= MOST_PACK_BYTES for p in index.packs):
        raise ValueError("it contains a pack with a wrong name or size")
    starts = [0, *accumulate(pack.size for pack in index.packs)]
    packs, offsets, sizes = index._columns[:3]
    for pack, offset, size in zip(packs, offsets, sizes, strict=True):
        if size and not (pack < len(index.packs) and starts[pack] + offset + size <= starts[-1]):
            raise ValueError("it contains a file outside its packs")
        if size and offset >= index.packs[pack].size:
            raise ValueError("it contains a file that begins outside its pack")


def _little(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _native(letter: str, data: bytes) -> array[int]:
    column: array[int] = array(letter)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
