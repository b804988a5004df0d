"""A cache on the disk: written whole or not at all, believed only when it is whole and of this very format.

Losing one costs time and nothing else, so whatever is wrong with it, it is simply not there.
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
    """Where what is remembered of `name` is kept."""
    return os.path.join(cache_dir, "snapshots", folder, hashlib.sha256(os.fsencode(name)).hexdigest()[:32])


def load(file: str, kind: str) -> Any:
    """What was saved under this kind; None when absent, damaged, or written by another version or user."""
    try:
        with open(file, "rb", buffering=0) as opened:
            if os.fstat(opened.fileno()).st_uid != os.getuid():
                return None
            data = opened.read()
    except OSError:
        return None
    header = _header(kind)
    start = len(header) + _DIGEST_BYTES
    body = memoryview(data)[start:]
    # marshal is several times faster than anything else here but must only see what it wrote itself.
    if not data.startswith(header) or hashlib.sha256(body).digest() != data[len(header) : start]:
        return None
    return marshal.loads(body)


def save(file: str, kind: str, value: Any) -> None:
    """Replace the cache; of two at once the last stays. A disk that is full or read-only is passed over."""
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
