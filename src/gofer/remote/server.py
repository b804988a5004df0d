"""The far end of a line: hears requests on stdin and answers on stdout, one after another, until it is cut.

A frame is one line of JSON with the `size` of the bytes that follow it. Nothing else ever reaches stdout: it
is taken away from everybody before the first request is heard.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, BinaryIO, Dict, Tuple

from gofer.objects.facts import ObjectsError
from gofer.remote.verbs import find


def serve(greeting: str) -> None:
    """Say `greeting` on a line of its own, then answer requests until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    outgoing.write(f"\n{greeting}\n".encode())
    outgoing.flush()
    while True:
        try:
            header, data = read_frame(incoming)
        except EOFError:
            return
        write_frame(outgoing, *answer(header, data))


def answer(header: Dict[str, Any], data: bytes) -> Tuple[Dict[str, Any], bytes]:
    """The frame that answers a request."""
    try:
        found = find(header["verb"])(data, **header["arguments"])
    except Exception as error:  # whatever it is, the caller is the one who can do something about it
        return {"error": describe(error)}, b""
    return {"value": found.value}, found.data


def describe(error: Exception) -> Dict[str, Any]:
    """An error in plain values: its kind, its words, and its number (of the system, or of HTTP)."""
    if isinstance(error, OSError):
        words = error.strerror or str(error)
        named = f"{error.filename}: {words}" if error.filename else words
        return {"kind": type(error).__name__, "words": named, "number": error.errno}
    number = error.status if isinstance(error, ObjectsError) else None
    return {"kind": type(error).__name__, "words": str(error), "number": number}


def read_frame(stream: BinaryIO) -> Tuple[Dict[str, Any], bytes]:
    """EOFError when the other side is gone, also in the middle of a frame."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    header = json.loads(line)
    data = stream.read(header["size"])
    if len(data) < header["size"]:
        raise EOFError
    return header, data


def write_frame(stream: BinaryIO, header: Dict[str, Any], data: bytes) -> None:
    stream.write(json.dumps({**header, "size": len(data)}).encode() + b"\n" + data)
    stream.flush()


def main() -> None:
    serve(sys.argv[1])
