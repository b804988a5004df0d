"""The line between two agents of a run: TCP, with a proof in each message that its sender has the key.

The agent that accepts sends a nonce. Then each side sends lines: a proof, a blank, a JSON object. The proof
is an HMAC by a key that both derive from the run's key, the nonce and the side. It covers the number of the
message too, so that nobody can repeat, drop or exchange messages.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import socket
from typing import Any, Dict, List, Optional, Tuple

from gofer.core import files
from gofer.core.json_text import parse_json

_GREETING = b"gofer-elastic-1 "
_MOST_BYTES = 4 << 20
_PIECE = 65536


class AgentLine:
    """One end of a line. No method blocks.

    `is_open` becomes False when the other end is gone, does not have the key, or sends what is no message.
    """

    def __init__(self, connection: socket.socket, key: bytes, *, accepted: bool) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.is_open = True
        self._key = key
        self._is_acceptor = accepted
        self._nonce: Optional[bytes] = None
        self._incoming = b""
        self._outgoing = b""
        self._waiting: List[Dict[str, Any]] = []
        self._sent = self._received = 0
        if accepted:
            self._nonce = os.urandom(16).hex().encode()
            self._outgoing = _GREETING + self._nonce + b"\n"

    @property
    def wants_write(self) -> bool:
        return self.is_open and bool(self._outgoing)

    def send(self, value: Dict[str, Any]) -> None:
        """Send a message as soon as the line takes it."""
        if self._nonce is None:
            self._waiting.append(value)
            return
        body = files.encode(value)
        self._outgoing += self._proof(self._is_acceptor, self._sent, body) + b" " + body + b"\n"
        self._sent += 1
        if len(self._outgoing) > _MOST_BYTES:
            self.close()
        self.flush()

    def flush(self) -> None:
        while self.wants_write:
            try:
                sent = self.socket.send(self._outgoing)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.ENOTCONN, errno.EINPROGRESS):
                    return
                self.close()
                return
            self._outgoing = self._outgoing[sent:]

    def receive(self) -> List[Dict[str, Any]]:
        """The messages that have come since the last call."""
        while self.is_open:
            try:
                piece = self.socket.recv(_PIECE)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                messages = self._messages()
                self.close()
                return messages
            self._incoming += piece
            if len(self._incoming) > _MOST_BYTES:
                self.close()
        return self._messages()

    def close(self) -> None:
        self.is_open = False
        self.socket.close()

    def _messages(self) -> List[Dict[str, Any]]:
        *lines, self._incoming = self._incoming.split(b"\n")
        found: List[Dict[str, Any]] = []
        for line in lines:
            if self._nonce is None:
                self._greet(line)
                continue
            message = self._checked(line)
            if message is None:
                self.close()
                break
            found.append(message)
        return found

    def _greet(self, line: bytes) -> None:
        if not line.startswith(_GREETING):
            self.close()
            return
        self._nonce = line[len(_GREETING) :]
        waiting, self._waiting = self._waiting, []
        for value in waiting:
            self.send(value)

    def _checked(self, line: bytes) -> Optional[Dict[str, Any]]:
        proof, _, body = line.partition(b" ")
        expected = self._proof(not self._is_acceptor, self._received, body)
        if not hmac.compare_digest(proof, expected):
            return None
        self._received += 1
        try:
            value = parse_json(body)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _proof(self, by_acceptor: bool, number: int, body: bytes) -> bytes:
        side = b"acceptor" if by_acceptor else b"caller"
        text = b"%s %s %d %s" % (side, self._nonce or b"", number, body)
        return hmac.new(self._key, text, hashlib.sha256).hexdigest().encode()


def listen(address: str = "") -> socket.socket:
    """A socket that listens at a free port of the address; "" means all addresses."""
    listener = socket.socket()
    listener.bind((address, 0))
    listener.listen(128)
    listener.setblocking(False)
    return listener


def start_connect(address: str, port: int) -> Tuple[socket.socket, int]:
    """A socket that begins to connect, and can be written when this has ended: see `connect_problem`. Also
    the number of the error where it is known at once, as on the same machine; else 0.
    """
    connection = socket.socket()
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        problem = connection.connect_ex((address, port))
    except OSError as error:  # a name that nobody knows
        problem = error.errno or errno.EINVAL
    return connection, 0 if problem == errno.EINPROGRESS else problem


def connect_problem(connection: socket.socket) -> int:
    """The error number with which a connection failed; 0 when it is there."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
