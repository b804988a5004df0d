"""Locks that a forked agent inherits and holds for as long as it lives.

One file, one byte for each name (its offset is a hash of the name), locked through an open file description: the
lock lives until every process that shares the description is gone, which is exactly the life of the agent. So a
supervisor that is killed between taking the lock and forking leaves it free, and one killed after leaves it held.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from typing import Optional

_F_OFD_GETLK, _F_OFD_SETLK = 36, 37
_FLOCK = "hhqqi4x"


def _request(kind: int, name: str) -> bytes:
    offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    return struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0)


def hold(path: str, name: str) -> Optional[int]:
    """A descriptor that holds the lock until it and its copies are closed; None when another holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(fd, _F_OFD_SETLK, _request(fcntl.F_WRLCK, name))
    except OSError:
        os.close(fd)
        return None
    return fd


def is_held(path: str, name: str) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(fd, _F_OFD_GETLK, _request(fcntl.F_WRLCK, name))
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(fd)
