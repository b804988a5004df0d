"""The server at the other end of an SSH connection: reads requests from stdin, answers on stdout, one by one.

A message is one line of JSON, followed by as many bytes as its `size` says. Only messages reach stdout: file
descriptor 1 is redirected before the first request, so that no library and no program can print into one.
"""

from __future__ import annotations

import json
import os
import signal
from typing import BinaryIO

from gofer.remote.calls import Json, Message, answer


def serve(greeting: str) -> None:
    """Print `greeting` on its own line, then answer requests until the connection ends."""
    # Ctrl-C on the laptop must not end a request in the middle; the end of stdin ends the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    # A program that a call starts must not read the next request from stdin.
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


def read_frame(stream: BinaryIO) -> Message:
    """Read one message; EOFError when the connection ends, also within a message."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    header = json.loads(line)
    data = stream.read(header["size"])
    if len(data) < header["size"]:
        raise EOFError
    return header, data


def write_frame(stream: BinaryIO, header: Json, data: bytes) -> None:
    stream.write(json.dumps({**header, "size": len(data)}).encode() + b"\n" + data)
    stream.flush()
