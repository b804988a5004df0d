"""`python -m gofer.transport.azure.bridge URL FOLDER`: connects stdin and stdout to a WebSocket, for ssh.

The bridge reads the user's token where gofer keeps tokens, so the token is on no command line.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
import sys
import threading
from contextlib import suppress
from typing import BinaryIO
from urllib.parse import urlsplit

from gofer.errors import GoferError, Unreachable
from gofer.objects.proxies import proxy_for
from gofer.objects.wire import trusted
from gofer.transport.azure.cloud import find_cloud
from gofer.transport.azure.credential import AzureCredential

_CONNECT_S = 20.0
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_PIECE = 1 << 15
_MOST_HEAD = 1 << 16
_MOST_FRAME = 1 << 26


class Bridge:
    """One WebSocket connection. `read` is for one thread; `write` may be called by any thread."""

    def __init__(self, url: str, token: str) -> None:
        self._sock = _connect(url)
        self._held = b""
        self._writing = threading.Lock()
        self._shake_hands(url, token)

    def _shake_hands(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {target} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}", "Upgrade: websocket"]
        lines += ["Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"Authorization: Bearer {token}"]
        self._sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self._held:
            self._fill()
            if len(self._held) > _MOST_HEAD:
                raise Unreachable(f"{parts.hostname} is not a WebSocket server")
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1:2]
        if status != [b"101"]:
            word = status[0].decode("ascii", "replace") if status else "nothing"
            raise Unreachable(f"the shell of the run cannot be opened: {parts.hostname} answered {word}")

    def write(self, data: bytes, kind: int = _BINARY) -> None:
        """Send one frame. Blocking. A client must mask its frames, says RFC 6455."""
        size = len(data)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        mask = os.urandom(4)
        with self._writing:
            self._sock.sendall(head + mask + _masked(data, mask))

    def read(self) -> bytes | None:
        """The next bytes; None when the server closes the connection. Blocking."""
        while True:
            first, second = self._take(2)
            kind, size = first & 15, second & 127
            if size == 126:
                (size,) = struct.unpack(">H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._take(8))
            if size > _MOST_FRAME:
                raise Unreachable("the shell of the run sent data that is not valid WebSocket")
            mask = self._take(4) if second & 128 else b""
            data = self._take(size)
            data = _masked(data, mask) if mask else data
            if kind == _CLOSE:
                return None
            if kind == _PING:
                self.write(data, _PONG)
            elif kind in (0, _TEXT, _BINARY) and data:
                return data

    def close(self) -> None:
        with suppress(OSError):
            self.write(b"", _CLOSE)
        self._sock.close()

    def _take(self, size: int) -> bytes:
        while len(self._held) < size:
            self._fill()
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def _fill(self) -> None:
        piece = self._sock.recv(_PIECE)
        if not piece:
            raise EOFError
        self._held += piece


def _masked(data: bytes, mask: bytes) -> bytes:
    if not data:
        return b""
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")


def _connect(url: str) -> socket.socket:
    """Connect to the host, or through the proxy that the environment names; with TLS for `wss`."""
    parts = urlsplit(url)
    is_secure = parts.scheme == "wss"
    host, port = parts.hostname or "", parts.port or (443 if is_secure else 80)
    proxy = proxy_for("https" if is_secure else "http", host, os.environ)
    try:
        sock = socket.create_connection((proxy.host, proxy.port) if proxy else (host, port), _CONNECT_S)
        if proxy:
            _tunnel(sock, host, port, proxy.authorization)
        if is_secure:
            sock = trusted().wrap_socket(sock, server_hostname=host)
    except OSError as error:
        raise Unreachable(f"the shell of the run at {host} cannot be reached: {error}") from None
    sock.settimeout(None)
    # A shell can be silent for hours; without keep-alives, a dead connection would never be noticed.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _tunnel(sock: socket.socket, host: str, port: int, authorization: str | None) -> None:
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"Proxy-Authorization: {authorization}"] if authorization else []
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(1)  # one byte at a time: the bytes after the header belong to TLS or the WebSocket
        if not piece or len(head) > _MOST_HEAD:
            raise OSError("the proxy closed the connection")
        head += piece
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise OSError("the proxy refused the connection")


def carry(bridge: Bridge, source: BinaryIO, sink: BinaryIO) -> None:
    """Copy both ways until either side ends. Blocking."""

    def outward() -> None:
        with suppress(OSError):
            while piece := os.read(source.fileno(), _PIECE):
                bridge.write(piece)
            bridge.write(b"", _CLOSE)

    threading.Thread(target=outward, daemon=True).start()
    with suppress(EOFError, OSError):
        while (data := bridge.read()) is not None:
            sink.write(data)
            sink.flush()


def main(argv: list[str]) -> int:
    url, folder = argv
    try:
        cloud = find_cloud(os.environ, folder)
        token = AzureCredential(folder, authority=cloud.authority).token(cloud.scope)
        bridge = Bridge(url, token.value)
    except (GoferError, EOFError) as error:
        sys.stderr.write(f"error: {str(error) or 'the server closed the connection'}\n")
        return 1
    carry(bridge, sys.stdin.buffer, sys.stdout.buffer)
    bridge.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
