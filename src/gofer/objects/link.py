"""One connection to an HTTP server: bytes out, the head of an answer and its body in."""

from __future__ import annotations

import socket
from typing import Callable, Dict, Optional, Union

Bytes = Union[bytes, bytearray, memoryview]

PIECE = 1 << 16
_MOST_HEAD = 1 << 16
_SENT_AT_ONCE = 1 << 20
_READ_AT_ONCE = 1 << 24
# Below this a body travels in one piece with its head.
_ONE_PIECE = 1 << 16


class Cut(OSError):
    """The connection ended in the middle of an answer, or carried something that is not HTTP."""


class StaleConnection(Cut):
    """A connection that had been idle turned out to be closed; the server heard nothing on it."""


# Of a length; `int` refuses a number of thousands of digits.
_MOST_DIGITS = 18


class ResponseHead:
    """The head of an answer. What everyone asks is found at once, the rest taken apart if need be."""

    __slots__ = ("_found", "_text", "ends_it", "is_chunked", "length", "status")

    def __init__(self, data: bytes) -> None:
        """`data` is all up to the empty line; Cut when it is not HTTP."""
        if data[:7] != b"HTTP/1." or not data[9:12].isdigit():
            raise Cut("the answer is not HTTP")
        self.status = int(data[9:12])
        self._text = data
        self._found: Optional[Dict[str, str]] = None
        low = data.lower()
        length = _value(low, b"\r\ncontent-length:")
        if length and (not length.isdigit() or len(length) > _MOST_DIGITS):
            raise Cut("the answer is not HTTP")
        self.length = int(length) if length else None
        self.is_chunked = b"chunked" in _value(low, b"\r\ntransfer-encoding:")
        self.ends_it = _value(low, b"\r\nconnection:") == b"close"

    def fields(self) -> Dict[str, str]:
        """By their names in small letters."""
        if self._found is None:
            lines = self._text.decode("latin-1").split("\r\n")[1:]
            pairs = (line.partition(":") for line in lines)
            self._found = {name.lower(): value.strip() for name, _, value in pairs}
        return self._found


def _value(low: bytes, name: bytes) -> bytes:
    """What stands behind the name in a head of small letters; nothing when it is not there."""
    at = low.find(name)
    if at < 0:
        return b""
    end = low.find(b"\r", at + len(name))
    return low[at + len(name) : end if end >= 0 else len(low)].strip()


class HttpConnection:
    """One connection; what was received and not yet asked for stays in `_rest`.

    With `whole` the system waits by itself until a buffer is full, which it cannot do for TLS.
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
                # In pieces: the time-out is for all that one call sends, and a line may be slow.
                for at in range(0, len(body), _SENT_AT_ONCE):
                    self._sock.sendall(memoryview(body)[at : at + _SENT_AT_ONCE])
        except (BrokenPipeError, ConnectionResetError):
            # A server may refuse before it has heard all; its answer says more than the broken pipe.
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
                raise Cut("the answer's head ended too early")
            data += piece
            end = data.find(b"\r\n\r\n")
        self._rest = data[end + 4 :]
        return ResponseHead(data[:end])

    def _recv(self, fresh: bool) -> bytes:
        """More bytes; StaleConnection when the connection ends before the first."""
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
        """So many bytes, or fewer when the connection ends before."""
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
                raise Cut("the answer ended too early")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line
