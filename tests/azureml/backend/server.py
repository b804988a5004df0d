"""A small HTTPS server for one test: it gives the answers of a list and keeps the requests."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from services.certificates import Certificates, make_certificates


class RecordedRequest(NamedTuple):
    """One request; `line` is the client's port, which identifies the connection."""

    method: str
    path: str
    headers: dict[str, str]
    line: int


class Reply(NamedTuple):
    """What is answered. `hang_s` is waited first; `cut` ends the connection within the body."""

    status: int = 200
    body: Any = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    hang_s: float = 0.0
    cut: bool = False


class Tls:
    """`replies` are given in order, the last one for ever."""

    def __init__(self, made: Certificates) -> None:
        self.requests: list[RecordedRequest] = []
        self.replies: list[Reply] = [Reply()]
        self.stopped = threading.Event()
        self.certificates = made
        self.ca = made.authority
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.chain, made.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def next_reply(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def close(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


def _handler(tls: Tls) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            tls.requests.append(
                RecordedRequest(self.command, self.path, dict(self.headers), self.client_address[1])
            )
            reply = tls.next_reply()
            if reply.hang_s:
                tls.stopped.wait(reply.hang_s)
            data = (
                reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body, default=dict).encode()
            )
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(data)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if reply.cut else data)
            if reply.cut:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


@contextmanager
def tls_server(folder: Path, made: Certificates | None = None) -> Iterator[Tls]:
    """With an authority of its own, unless one is given."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Tls(made or make_certificates(folder))
    try:
        yield server
    finally:
        server.close()
