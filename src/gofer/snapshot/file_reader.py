"""Reads files that other processes may be writing, and notices when they changed during the read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from gofer.core.code.packs import CHUNK_BYTES
from gofer.core.code.snapshot_names import encode_name
from gofer.snapshot.statcache import Signature

# A row of a listing without its name: kind, size and hashes; or `l` and the target of a link.
Row = list[str | int]
# Called with the sha256 of some bytes, and the bytes.
Add = Callable[[str, bytes], object]

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR)
_REPLACED = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EINVAL)


class FileReading(NamedTuple):
    """What was read, and the signature during the read; without a row when the file no longer exists.

    `whole` is false when the file changed between the first and the last byte.
    """

    row: Row | None
    signature: Signature | None
    whole: bool


def sign(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size, status.st_mode


def read_signature(path: str) -> Signature | None:
    """The present signature; None when the file does not exist."""
    try:
        return sign(os.lstat(path))
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def read(path: str, signature: Signature, add: Add) -> FileReading:
    """Read the file or link that had this signature; OSError when it cannot be read.

    Contents go to `add`. A file that has been replaced by something else gives a result without a row, not
    whole.
    """
    try:
        if stat.S_ISLNK(signature[4]):
            return _read_link(path)
        return _read_file(path, add)
    except OSError as error:
        if error.errno in _GONE:
            return FileReading(None, None, True)
        if error.errno in _REPLACED:
            return FileReading(None, None, False)
        raise


def _read_link(path: str) -> FileReading:
    before = read_signature(path)
    target = os.fsencode(os.readlink(path))
    return FileReading(["l", encode_name(target)], before, before == read_signature(path))


def _read_file(path: str, add: Add) -> FileReading:
    file = os.open(path, _OPEN)
    try:
        status = os.fstat(file)
        # The name may have become a pipe or a device since the walk.
        if not stat.S_ISREG(status.st_mode):
            return FileReading(None, None, False)
        size, blobs = _read_pieces(file, status.st_size, add)
        whole = size == status.st_size and sign(status) == sign(os.fstat(file))
        kind = "x" if status.st_mode & stat.S_IXUSR else "f"
        return FileReading([kind, size, *blobs], sign(status), whole)
    finally:
        os.close(file)


def _read_pieces(file: int, expected: int, add: Add) -> tuple[int, list[str]]:
    """Read and hash the file in pieces, and stop soon after its expected end."""
    size = 0
    blobs: list[str] = []
    while size <= expected:
        # One byte more than expected, to notice that the file has grown.
        piece = _fill(file, min(expected - size + 1, CHUNK_BYTES), expected - size)
        if not piece:
            break
        blob = hashlib.sha256(piece).hexdigest()
        add(blob, piece)
        blobs.append(blob)
        size += len(piece)
        if len(piece) < CHUNK_BYTES:  # only the last piece may be shorter
            break
    return size, blobs


def _fill(file: int, most: int, expected: int) -> bytes:
    """Up to `most` bytes; fewer only at the end of the file, or when `expected` bytes have been read."""
    data = os.read(file, most)
    while len(data) < min(most, expected):
        more = os.read(file, most - len(data))
        if not more:
            break
        data += more
    return data
