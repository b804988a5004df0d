"""Connect stdin and stdout of this process to a TCP or Unix socket of this machine, as `ssh -W` does.

With a program that carries stdin and stdout to another machine, such as a command in a pod, this is a tunnel.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from typing import List

from gofer.core import files

_CONNECT_S = 20.0
_PIECE = 1 << 16
# What a shell gives for a command that cannot be run.
UNREACHABLE = 126
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from gofer.node.socket_relay import main; main(sys.argv[1:])"
)


def program(python: str, root: str, address: str) -> List[str]:
    """The command line that runs `main` on a machine where the agent is in the folder or zip file `root`.

    `address` is `HOST:PORT`, `:PORT` for this machine, or the absolute path of a Unix socket.
    """
    return [python, "-I", "-S", "-c", _PROGRAM, root, address]


def main(words: List[str]) -> None:
    """Relay until the other end closes the connection; never returns. The end of stdin is passed on."""
    (address,) = words
    try:
        sock = connect(address)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: cannot connect to {address}: {error}\n")
        sys.exit(UNREACHABLE)
    with sock:
        try:
            relay(sock, 0, 1)
        except OSError as error:
            sys.stderr.write(f"error: the connection to {address} was lost: {error}\n")
            sys.exit(1)
    sys.exit(0)


def connect(address: str) -> socket.socket:
    """A connection to the address; OSError when it is refused, ValueError for an address without a port."""
    if address.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        return sock
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host.strip("[]") or "localhost", int(port)), _CONNECT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def relay(sock: socket.socket, source: int, sink: int) -> None:
    """Copy both ways, until the other end closes. Neither way waits for the other."""
    sock.setblocking(False)
    unsent, is_reading = b"", True
    while True:
        readable = [sock.fileno()] + ([source] if is_reading and not unsent else [])
        ready, writable, _ = select.select(readable, [sock.fileno()] if unsent else [], [])
        if writable:
            unsent = unsent[_send(sock, unsent) :]
        if source in ready:
            unsent = os.read(source, _PIECE)
            if not unsent:
                is_reading = False
                sock.shutdown(socket.SHUT_WR)
        if sock.fileno() in ready:
            data = sock.recv(_PIECE)
            if not data:
                return
            files.write_all(sink, data)


def _send(sock: socket.socket, data: bytes) -> int:
    try:
        return sock.send(data)
    except BlockingIOError:
        return 0
