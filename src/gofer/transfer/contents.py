"""Whether two files are the same by their bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gofer.storage.base import OnDisk
from gofer.transfer.ends import End, LocalEnd
from gofer.transfer.entries import Entry

_CHUNK = 1 << 20


def are_equal(source: End, destination: End, entry: Entry, other: Entry) -> bool:
    """By MD5. False also when an end knows no MD5 of the object and cannot read it here: then it is sent."""
    # The end that may not know is asked first, so that nothing is read in vain.
    first, second = (source, entry), (destination, other)
    if isinstance(source, LocalEnd):
        first, second = second, first
    known = md5_of(*first)
    return known is not None and known == md5_of(*second)


def md5_of(end: End, entry: Entry) -> bytes | None:
    """The MD5 of the content; None when only reading the object from afar could tell. OSError, StoreError."""
    if isinstance(end, LocalEnd):
        return md5_of_file(end.path / entry.path if entry.path else end.path)
    if entry.md5 is not None:
        return entry.md5
    key = end.key(entry.path)
    info = end.store.head(key)
    if info and info.md5 is None and isinstance(end.store, OnDisk):
        return md5_of_file(end.store.path(key))
    return info.md5 if info else None


def md5_of_file(path: Path) -> bytes:
    """OSError when it cannot be read."""
    digest = hashlib.md5(usedforsecurity=False)
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        while chunk := os.read(file, _CHUNK):
            digest.update(chunk)
    finally:
        os.close(file)
    return digest.digest()
