"""The server at the other end of an SSH connection: reads requests from stdin, answers on stdout, one by one.

A message is one line of JSON, followed by as many bytes as its `size` says. Only messages reach stdout: file
descriptor 1 is redirected before the first request, so that no library and no program can print into one.
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
    """Print `greeting` on its own line, then answer requests until the connection ends."""
    # Ctrl-C on the laptop must not end a request in the middle; the end of stdin ends the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    # A program that a verb starts must not read the next request from stdin.
    os.dup2(null, 0)
    # From here on, output to stdout goes to stderr.
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
    """The message that answers a request."""
    try:
        found = find(header["verb"])(data, **header["arguments"])
    except Exception as error:  # only the caller knows what to do about an error, so send every error
        return {"error": describe(error)}, b""
    return {"value": found.value}, found.data


def describe(error: Exception) -> Dict[str, Any]:
    """An error as plain data: its class, its message, and its number (errno or HTTP status)."""
    if isinstance(error, OSError):
        words = error.strerror or str(error)
        named = f"{error.filename}: {words}" if error.filename else words
        return {"kind": type(error).__name__, "words": named, "number": error.errno}
    number = error.status if isinstance(error, ObjectsError) else None
    return {"kind": type(error).__name__, "words": str(error), "number": number}


def read_frame(stream: BinaryIO) -> Tuple[Dict[str, Any], bytes]:
    """Read one message; EOFError when the connection ends, also within a message."""
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
