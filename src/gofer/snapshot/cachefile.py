"""A cache on the disk. A file is written atomically, and read only if it is complete and of the same format.

A lost cache costs only time, so a file with any problem counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from typing import Any

from gofer.core import private_folder

_DIGEST_BYTES = 32


def path(cache_dir: str, folder: str, name: str | bytes) -> str:
    """The path of the cache of `name`."""
    return os.path.join(cache_dir, "snapshots", folder, hashlib.sha256(os.fsencode(name)).hexdigest()[:32])


def load(file: str, kind: str) -> Any:
    """The saved value of this kind; None when absent, damaged, or written by another version or user."""
    try:
        with open(file, "rb", buffering=0) as opened:
            # marshal can crash Python on forged data, so files of other users are not read.
            if os.fstat(opened.fileno()).st_uid != os.getuid():
                return None
            data = opened.read()
    except OSError:
        return None
    header = _header(kind)
    start = len(header) + _DIGEST_BYTES
    body = memoryview(data)[start:]
    # marshal is several times faster than any other format, but unsafe for other data; hence the hash and the
    # owner.
    if not data.startswith(header) or hashlib.sha256(body).digest() != data[len(header) : start]:
        return None
    return marshal.loads(body)


def save(file: str, kind: str, value: Any) -> None:
    """Replace the cache. The last of several writers wins; a full or read-only disk is ignored."""
    body = marshal.dumps(value)
    temporary = f"{file}.{os.getpid()}-{os.urandom(4).hex()}"
    with contextlib.suppress(OSError):
        private_folder.make_missing(os.path.dirname(file))
        try:
            number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(number, "wb") as opened:
                opened.write(_header(kind) + hashlib.sha256(body).digest())
                opened.write(body)
            os.replace(temporary, file)
        except OSError:
            os.unlink(temporary)


def _header(kind: str) -> bytes:
    return f"gofer {kind} {sys.implementation.cache_tag} {marshal.version}\n".encode()
