"""WebSocket to TCP: what a client sends in binary frames goes to the node's port, and back (RFC 6455)."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import struct
import threading
from typing import Protocol

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_IDLE_S = 600.0


class Line(Protocol):
    """A connection, plain or TLS."""

    def recv(self, size: int) -> bytes: ...

    def sendall(self, data: bytes) -> None: ...


def bridge(line: socket.socket, key: str, port: int) -> None:
    """Completes the handshake and carries bytes until either side ends."""
    accept = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()
    try:
        node = socket.create_connection(("127.0.0.1", port), timeout=10)
    except OSError:
        line.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        return
    node.settimeout(_IDLE_S)
    words = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    line.sendall(f"{words}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    with node, contextlib.suppress(OSError, ConnectionError):
        back = threading.Thread(target=_outward, args=(node, line), daemon=True)
        back.start()
        _inward(line, node)
        with contextlib.suppress(OSError):
            node.shutdown(socket.SHUT_RDWR)
        back.join(5)


def _outward(node: socket.socket, line: Line) -> None:
    with contextlib.suppress(OSError, ConnectionError):
        while data := node.recv(32768):
            line.sendall(frame(data))
        line.sendall(frame(b"", opcode=8))


def _inward(line: Line, node: Line) -> None:
    while True:
        opcode, data = read_frame(line)
        if opcode == 8:
            return
        if opcode == 9:
            line.sendall(frame(data, opcode=10))
        elif opcode in (0, 1, 2):
            node.sendall(data)


def frame(data: bytes, *, opcode: int = 2) -> bytes:
    """One whole frame as a server sends it, unmasked."""
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
    return head + data


def read_frame(line: Line) -> tuple[int, bytes]:
    """The opcode and the content of the next frame; ConnectionError when the line ends."""
    first, second = _exactly(line, 2)
    size = second & 0x7F
    if size == 126:
        size = struct.unpack("!H", _exactly(line, 2))[0]
    elif size == 127:
        size = struct.unpack("!Q", _exactly(line, 8))[0]
    mask = _exactly(line, 4) if second & 0x80 else b""
    data = _exactly(line, size)
    if mask:
        whole = mask * (size // 4 + 1)
        data = bytes(one ^ two for one, two in zip(data, whole, strict=False))
    return first & 0x0F, data


def _exactly(line: Line, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        more = line.recv(size - len(parts))
        if not more:
            raise ConnectionError("the line ended")
        parts += more
    return parts
