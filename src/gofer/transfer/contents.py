"""Compares two files by their contents."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from gofer.storage.base import Blocks, OnDisk
from gofer.transfer.blocks import block_size
from gofer.transfer.endpoints import End, LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry

_CHUNK = 1 << 20
# S3's ETag of an object uploaded in parts: the MD5 of the parts' MD5s, and the number of parts.
_IN_PARTS = re.compile(r'"?([0-9a-f]{32})-(\d+)"?')


def are_equal(source: End, destination: End, entry: FileEntry, other: FileEntry) -> bool:
    """Whether the contents have the same MD5. Raises OSError and StoreError.

    False also when one end does not know its MD5 and cannot compute it here: the file is then sent.
    """
    # Ask the store first, because it may not know an MD5; then the local file is not read for nothing.
    if isinstance(source, LocalEnd):
        source, destination, entry, other = destination, source, other, entry
    known = md5_of(source, entry)
    if known is not None:
        return known == md5_of(destination, other)
    if isinstance(source, StoreEnd) and isinstance(destination, LocalEnd):
        return _is_in_parts(_path(destination, other), source, entry)
    return False


def md5_of(end: End, entry: FileEntry) -> bytes | None:
    """The MD5 of the content; None when the object would have to be downloaded. OSError, StoreError."""
    if isinstance(end, LocalEnd):
        return md5_of_file(_path(end, entry))
    if entry.md5 is not None:
        return entry.md5
    key = end.key(entry.path)
    info = end.store.head(key)
    if info and info.md5 is None and isinstance(end.store, OnDisk):
        return md5_of_file(end.store.path(key))
    return info.md5 if info else None


def md5_of_file(path: Path) -> bytes:
    """The MD5 of a file; OSError when it cannot be read."""
    with open(path, "rb", buffering=0) as file:
        return _md5(file.fileno(), file.seek(0, os.SEEK_END), 0)


def _is_in_parts(path: Path, end: StoreEnd, entry: FileEntry) -> bool:
    """Whether the file, uploaded in the parts that gofer makes, would have the object's ETag."""
    found = _IN_PARTS.fullmatch(entry.etag or "")
    if not found or not isinstance(end.store, Blocks):
        return False
    block = block_size(entry.size, end.store.block_rules)
    # Another number of parts: the object was not uploaded by gofer, so the ETag says nothing.
    if -(-entry.size // block) != int(found[2]):
        return False
    with open(path, "rb", buffering=0) as file:
        parts = [_md5(file.fileno(), block, start) for start in range(0, entry.size, block)]
    return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest() == found[1]


def _md5(file: int, size: int, start: int) -> bytes:
    digest = hashlib.md5(usedforsecurity=False)
    end = start + size
    while start < end and (chunk := os.pread(file, min(_CHUNK, end - start), start)):
        digest.update(chunk)
        start += len(chunk)
    return digest.digest()


def _path(end: LocalEnd, entry: FileEntry) -> Path:
    return end.path / entry.path if entry.path else end.path
