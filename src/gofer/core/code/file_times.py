"""Modification times and permission bits of the files of a run's code.

The id of a snapshot depends on contents alone, so times and permission bits are sent separately: one object
in the folder of each run. The object holds numbers without names, in the order of the manifest: first the
folders, then the files and links. Anyone may have written it, so `decode` checks the number of entries and
accepts nothing but numbers.
"""

from __future__ import annotations

import os
import sys
import zlib
from array import array
from typing import NamedTuple, Sequence, Tuple

from gofer.core.code.manifest import Manifest
from gofer.core.code.snapshot_names import ManifestError

_MAGIC = b"gofer file times 1\n"
_HASH_LENGTH = 64
_WIDTH = 10  # bytes of one entry: 8 of the time, 2 of the mode
_PERMISSIONS = 0o777
# The owner must be able to enter and change each folder: otherwise gofer can neither fill nor remove it.
_OWNER_OF_FOLDER = 0o700

# Modification time in nanoseconds, and the mode as `lstat` gives it.
Stamp = Tuple[int, int]


class FileTimes(NamedTuple):
    """One stamp for each folder below the top, and one for each file and link, in the manifest's order."""

    folders: Sequence[Stamp]
    entries: Sequence[Stamp]


def encode(snapshot_id: str, times: FileTimes) -> bytes:
    """The object that `decode` reads."""
    stamps = [*times.folders, *times.entries]
    nanoseconds = array("q", [stamp[0] for stamp in stamps])
    modes = array("H", [stamp[1] & _PERMISSIONS for stamp in stamps])
    body = b"".join(_little_endian(column).tobytes() for column in (nanoseconds, modes))
    return _MAGIC + snapshot_id.encode("ascii") + zlib.compress(body, 1)


def decode(data: bytes, manifest: Manifest) -> FileTimes:
    """The times of a snapshot; ManifestError when the object is damaged or belongs to another snapshot."""
    lead = len(_MAGIC) + _HASH_LENGTH
    if data[:lead] != _MAGIC + manifest.id.encode("ascii"):
        raise ManifestError(f"the file times are not those of the snapshot {manifest.id}")
    count = len(manifest.folders) + len(manifest.entries)
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(data[lead:], count * _WIDTH + 1)
        body += unpacker.decompress(unpacker.unconsumed_tail, 1)
    except zlib.error as error:
        raise ManifestError(f"the file times are damaged: {error}") from error
    if len(body) != count * _WIDTH or not unpacker.eof:
        raise ManifestError(f"the file times are damaged: they are not those of {count} files")
    nanoseconds, modes = array("q"), array("H")
    nanoseconds.frombytes(body[: count * 8])
    modes.frombytes(body[count * 8 :])
    stamps = list(zip(_little_endian(nanoseconds), _little_endian(modes)))
    return FileTimes(stamps[: len(manifest.folders)], stamps[len(manifest.folders) :])


def _little_endian(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column.byteswap()
    return column


def apply(root: bytes, manifest: Manifest, times: FileTimes) -> None:
    """Give times and modes to the files in `root`, which must just have been written and be unknown to
    others.

    No link is followed. Folders come last and deepest first, since a change of an entry changes its folder.
    """
    # The folder was made with mode 0777, so its mode shows which bits the umask allows.
    allowed = os.stat(root).st_mode & _PERMISSIONS
    for entry, stamp in zip(manifest.entries, times.entries):
        path = os.path.join(root, entry.path)
        if entry.kind != "l":
            made = allowed & (0o777 if entry.kind == "x" else 0o666)
            _set_mode(path, stamp[1] & _PERMISSIONS, made)
        _set_time(path, stamp[0])
    for folder, stamp in reversed(list(zip(manifest.folders, times.folders))):
        path = os.path.join(root, folder)
        _set_mode(path, stamp[1] & _PERMISSIONS | _OWNER_OF_FOLDER, allowed)
        _set_time(path, stamp[0])


def _set_mode(path: bytes, mode: int, present: int) -> None:
    if mode != present:
        os.chmod(path, mode)


def _set_time(path: bytes, nanoseconds: int) -> None:
    try:
        os.utime(path, ns=(nanoseconds, nanoseconds), follow_symlinks=False)
    except OverflowError as error:
        raise ManifestError(f"{nanoseconds} is not the time of a file") from error
