"""One connection to an HTTP server: sends requests, reads the heads and bodies of answers."""

from __future__ import annotations

import socket
from typing import Callable, Dict, Optional, Union

Bytes = Union[bytes, bytearray, memoryview]

PIECE = 1 << 16
_MOST_HEAD = 1 << 16
_SENT_AT_ONCE = 1 << 20
_READ_AT_ONCE = 1 << 24
# Up to this size, the body is sent in one call with the head: one packet instead of two.
_ONE_PIECE = 1 << 16


class Cut(OSError):
    """The connection ended within an answer, or carried something that is not HTTP."""


class StaleConnection(Cut):
    """An idle connection turned out to be closed. The server has not seen the request."""


# The most digits of a length. `int` raises an error for thousands of digits.
_MOST_DIGITS = 18


class ResponseHead:
    """The head of an answer. Common fields are parsed at once, the others when they are needed."""

    __slots__ = ("_found", "_text", "ends_it", "is_chunked", "length", "status")

    def __init__(self, data: bytes) -> None:
        """`data` is everything up to the empty line; Cut when it is not HTTP."""
        if data[:7] != b"HTTP/1." or not data[9:12].isdigit():
            raise Cut("the answer is not HTTP")
        self.status = int(data[9:12])
        self._text = data
        self._found: Optional[Dict[str, str]] = None
        # One lower-case copy, because HTTP ignores the case of names.
        low = data.lower()
        length = _value(low, b"\r\ncontent-length:")
        if length and (not length.isdigit() or len(length) > _MOST_DIGITS):
            raise Cut("the answer is not HTTP")
        self.length = int(length) if length else None
        self.is_chunked = b"chunked" in _value(low, b"\r\ntransfer-encoding:")
        self.ends_it = _value(low, b"\r\nconnection:") == b"close"

    def fields(self) -> Dict[str, str]:
        """All fields, by lower-case name."""
        if self._found is None:
            lines = self._text.decode("latin-1").split("\r\n")[1:]
            pairs = (line.partition(":") for line in lines)
            self._found = {name.lower(): value.strip() for name, _, value in pairs}
        return self._found


def _value(low: bytes, name: bytes) -> bytes:
    """The value of a field in a lower-case head; empty when the field is missing."""
    at = low.find(name)
    if at < 0:
        return b""
    end = low.find(b"\r", at + len(name))
    return low[at + len(name) : end if end >= 0 else len(low)].strip()


class HttpConnection:
    """One connection. `_rest` holds bytes that were received but not yet read. For one thread at a time.

    With `whole`, the system waits until a buffer is full, which saves calls but is not possible with TLS.
    """

    def __init__(
        self, sock: socket.socket, take_back: Callable[[HttpConnection], bool], whole: bool = False
    ) -> None:
        self._take_back = take_back
        self._sock = sock
        self._rest = b""
        self._flags = socket.MSG_WAITALL if whole else 0

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
                # In pieces: the timeout applies to each call, and a slow line needs long for a large body.
                for at in range(0, len(body), _SENT_AT_ONCE):
                    self._sock.sendall(memoryview(body)[at : at + _SENT_AT_ONCE])
        except (BrokenPipeError, ConnectionResetError):
            # A server may refuse a request before it has read all of it. Its answer says more than the broken
            # pipe.
            if not self._peek():
                raise StaleConnection() from None

    def _peek(self) -> bool:
        try:
            self._rest = self._sock.recv(PIECE)
        except OSError:
            return False
        return bool(self._rest)

    def read_head(self) -> ResponseHead:
        data = self._rest or self._recv(fresh=True)
        end = data.find(b"\r\n\r\n")
        while end < 0:
            piece = self._recv(fresh=False)
            if not piece or len(data) > _MOST_HEAD:
                raise Cut("the answer's head is incomplete or too long")
            data += piece
            end = data.find(b"\r\n\r\n")
        self._rest = data[end + 4 :]
        return ResponseHead(data[:end])

    def _recv(self, fresh: bool) -> bytes:
        """More bytes; StaleConnection when the connection ends before the first byte."""
        try:
            piece = self._sock.recv(PIECE)
        except ConnectionResetError:
            if fresh:
                raise StaleConnection() from None
            raise
        if not piece and fresh:
            raise StaleConnection()
        return piece

    def read(self, most: int) -> bytes:
        if self._rest:
            piece, self._rest = self._rest[:most], self._rest[most:]
            return piece
        return self._sock.recv(most)

    def read_all(self, size: int) -> bytes:
        """`size` bytes; fewer when the connection ends before."""
        held = self._rest
        if len(held) >= size:
            self._rest = held[size:]
            return held if len(held) == size else held[:size]
        self._rest = b""
        pieces, missing = [held], size - len(held)
        while missing:
            piece = self._sock.recv(min(missing, _READ_AT_ONCE), self._flags)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def read_into(self, buffer: memoryview) -> int:
        if self._rest:
            piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
            buffer[: len(piece)] = piece
            return len(piece)
        return self._sock.recv_into(buffer, 0, self._flags)

    def read_line(self) -> bytes:
        while b"\r\n" not in self._rest:
            piece = self._sock.recv(PIECE)
            if not piece or len(self._rest) > _MOST_HEAD:
                raise Cut("the answer is incomplete")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line
