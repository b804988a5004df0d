"""One connection to an HTTP server: bytes out, the head of an answer and its body in."""

from __future__ import annotations

import socket
from typing import Callable, Dict, Optional, Union

Bytes = Union[bytes, bytearray, memoryview]

PIECE = 1 << 16
_MOST_HEAD = 1 << 16
_SENT_AT_ONCE = 1 << 20
# Below this a body travels in one piece with its head.
_ONE_PIECE = 1 << 16


class Cut(OSError):
    """The connection ended in the middle of an answer, or carried something that is not HTTP."""


class Stale(Cut):
    """A connection that had been idle turned out to be closed; the server heard nothing on it."""


class Link:
    """One connection; what was received and not yet asked for stays in `_rest`."""

    def __init__(self, sock: socket.socket, take_back: Callable[[Link], bool]) -> None:
        self._take_back = take_back
        self._sock = sock
        self._rest = b""

    def release(self, keep: bool) -> None:
        if not keep or self._rest or not self._take_back(self):
            self._sock.close()

    def write(self, head: bytes, body: Optional[Bytes]) -> None:
        try:
            if not body:
                self._sock.sendall(head)
            elif len(body) <= _ONE_PIECE:
                self._sock.sendall(b"".join((head, body)))
            else:
                self._sock.sendall(head)
                # In pieces: the time-out is for all that one call sends, and a line may be slow.
                for at in range(0, len(body), _SENT_AT_ONCE):
                    self._sock.sendall(memoryview(body)[at : at + _SENT_AT_ONCE])
        except (BrokenPipeError, ConnectionResetError):
            # A server may refuse before it has heard all; its answer says more than the broken pipe.
            if not self._peek():
                raise Stale() from None

    def _peek(self) -> bool:
        try:
            self._rest = self._sock.recv(PIECE)
        except OSError:
            return False
        return bool(self._rest)

    def read_head(self) -> tuple[int, Dict[str, str]]:
        data = self._rest
        end = data.find(b"\r\n\r\n")
        while end < 0:
            piece = self._recv(fresh=not data)
            if not piece or len(data) > _MOST_HEAD:
                raise Cut("the answer's head ended too early")
            data += piece
            end = data.find(b"\r\n\r\n")
        self._rest = data[end + 4 :]
        lines = data[:end].decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise Cut("the answer is not HTTP")
        pairs = (line.partition(":") for line in lines[1:])
        return int(words[1]), {name.lower(): value.strip() for name, _, value in pairs}

    def _recv(self, fresh: bool) -> bytes:
        """More bytes; Stale when the connection ends before the first."""
        try:
            piece = self._sock.recv(PIECE)
        except ConnectionResetError:
            if fresh:
                raise Stale() from None
            raise
        if not piece and fresh:
            raise Stale()
        return piece

    def read(self, most: int) -> bytes:
        if self._rest:
            piece, self._rest = self._rest[:most], self._rest[most:]
            return piece
        return self._sock.recv(most)

    def read_into(self, buffer: memoryview) -> int:
        if self._rest:
            piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
            buffer[: len(piece)] = piece
            return len(piece)
        return self._sock.recv_into(buffer)

    def read_line(self) -> bytes:
        while b"\r\n" not in self._rest:
            piece = self._sock.recv(PIECE)
            if not piece or len(self._rest) > _MOST_HEAD:
                raise Cut("the answer ended too early")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line
