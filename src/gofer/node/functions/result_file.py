"""The file with the result of a function: written on a node, read where the run was submitted.

Loading a pickle runs whatever its author chose, and anybody with write access to the store could have put
the file there. So the file ends with an HMAC by the key of the run, which only the run and its submitter
have, and nothing of a file is believed before the HMAC of all of it is right. The header names the run and
the rank, so a result cannot be passed off as that of another run.

    gofer-result 1
    {"run": …, "rank": …, "kind": "value" or "error", …}
    the pickle of the value or of the exception, which may be empty
    64 hexadecimal digits

This module is sent along with the function, beside `program.py`, so it imports nothing of gofer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import IO, Callable, Dict, Iterable, Union

VALUE = "value"
ERROR = "error"

_FIRST_LINE = b"gofer-result 1\n"
_MAC_BYTES = 64
_MOST_HEADER_BYTES = 1 << 20


class ResultRefused(ValueError):
    """The file is not a result that this run has written, or it was changed since."""


class SignedFile:
    """A file to write to that computes an HMAC of all that is written."""

    def __init__(self, file: IO[bytes], key: bytes) -> None:
        self._file = file
        self._hmac = hmac.new(key, digestmod=hashlib.sha256)

    def write(self, data: Union[bytes, memoryview]) -> int:
        """Write bytes or any other buffer; the number of bytes."""
        self._hmac.update(data)
        return self._file.write(data)

    @property
    def mac(self) -> bytes:
        """The HMAC of what was written so far, in hexadecimal digits."""
        return self._hmac.hexdigest().encode("ascii")


def result_name(rank: int) -> str:
    """The name of the file below $GOFER_OUTPUT_DIR."""
    return f"gofer-result-{rank}.pkl"


def write(path: str, key: bytes, header: Dict[str, object], dump: Callable[[SignedFile], object]) -> None:
    """Write the file, whole or not at all. `dump` writes the pickle; its errors pass through."""
    os.makedirs(os.path.dirname(path), exist_ok=True)  # the function may have removed the folder
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            signed = SignedFile(file, key)
            signed.write(_FIRST_LINE + json.dumps(header).encode("ascii") + b"\n")
            dump(signed)
            file.write(signed.mac)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def verify(pieces: Iterable[bytes], key: bytes, copy: IO[bytes]) -> Dict[str, object]:
    """Copy the pieces of a file to `copy`, which only this user can reach, and leave `copy` at the begin of
    the pickle; the header. ResultRefused unless the HMAC is right.
    """
    for piece in pieces:
        copy.write(piece)
    size = copy.tell() - _MAC_BYTES
    if size < 0:
        raise ResultRefused("it is cut off")
    computed = hmac.new(key, digestmod=hashlib.sha256)
    copy.seek(0)
    while copy.tell() < size:
        computed.update(copy.read(min(1 << 20, size - copy.tell())))
    if not hmac.compare_digest(copy.read(_MAC_BYTES), computed.hexdigest().encode("ascii")):
        raise ResultRefused("its signature is not that of the run")
    copy.seek(size)
    copy.truncate()
    copy.seek(0)
    if copy.readline(len(_FIRST_LINE)) != _FIRST_LINE:
        raise ResultRefused("another version of gofer has written it")
    header = json.loads(copy.readline(_MOST_HEADER_BYTES))
    return dict(header)
