"""Compare and swap in a store that is a folder. A lock in the store admits one writer at a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager
from typing import Iterator, Optional

from gofer.objects.facts import ObjectNotFound
from gofer.objects.files import TEMPORARY, FileObjects


def compare_and_swap(root: str, key: str, old_md5: Optional[str], new: bytes) -> bool:
    """Write `new` if the MD5 of the object is `old_md5`; with None, if there is no object. Returns whether it
    did.

    Blocks while another process does the same in this store.
    """
    objects = FileObjects(root)
    with locked(root):
        try:
            held: Optional[str] = hashlib.md5(objects.get(key)).hexdigest()
        except ObjectNotFound:
            held = None
        if held != old_md5:
            return False
        objects.put(key, new)
    return True


def old_md5(old: Optional[bytes]) -> Optional[str]:
    """The MD5 for `compare_and_swap`."""
    return None if old is None else hashlib.md5(old).hexdigest()


@contextmanager
def locked(root: str) -> Iterator[None]:
    """Hold the lock of the store at `root`. Blocks until it is free."""
    path = os.path.join(root, TEMPORARY, "swap.lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # O_NOFOLLOW: in a shared store, another user could have put a link in the place of the lock file.
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        lock = os.open(path, os.O_RDWR | flags, 0o666)
    except PermissionError:  # another user made the lock file; reading permission is enough for flock
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
