"""Passes connections on to another port of this machine, as they are, and counts what comes back.

It knows nothing of what it carries, so that traffic under TLS can be counted too.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_PIECE = 1 << 16


class Relay:
    """Listens on `port`; `bytes_down` is what servers sent to clients since it was last set to 0."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bytes_down = 0
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Until `close`."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._upstream_port))
                for source, sink, is_down in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._carry, args=[source, sink, is_down], daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _carry(self, source: socket.socket, sink: socket.socket, is_down: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                sink.sendall(data)
                if is_down:
                    with self._lock:
                        self.bytes_down += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relayed(upstream_port: int) -> Iterator[Relay]:
    """A relay in threads of this process."""
    relay = Relay(upstream_port)
    thread = threading.Thread(target=relay.serve, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()
