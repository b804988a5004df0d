"""An HTTPS server for tests; it records each request that it gets."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from authority import Authority


class Seen(NamedTuple):
    """A request: method, path with query, headers as sent, the body, and who the client certificate names."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    client: str


class TlsServer:
    """Serves on loopback until `close`. `answers` maps a path to the statuses and documents that it gives,
    one after the other; the last stays.
    """

    def __init__(self, authority: Authority, folder: Path, *names: str) -> None:
        pair = authority.pair("server", *(names or ("127.0.0.1", "localhost")))
        file, trusted = folder / "server.pem", folder / "authority.pem"
        file.write_text(pair.certificate + pair.key)
        trusted.write_text(authority.pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                named = self.connection.getpeercert() or {}
                client = "".join(value for part in named.get("subject", ()) for _, value in part)
                server.seen.append(
                    Seen(self.command, self.path, self.headers.items(), self.rfile.read(size), client)
                )
                answers = server.answers.get(self.path.split("?")[0], [(200, {})])
                status, document = answers.pop(0) if len(answers) > 1 else answers[0]
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        return Handler
