"""The listening side: HTTP/1.1 with keep-alive, a thread a connection, TLS or plain; knows no Azure."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl

from simulators.azure.clock import Clock
from simulators.azure.faults import Faults
from simulators.azure.messages import SimulatedRequest, SimulatedResponse

_IDLE_S = 300.0


class App(Protocol):
    """What answers: never raises."""

    clock: Clock
    faults: Faults

    def answer(self, request: SimulatedRequest) -> SimulatedResponse: ...

    def upgrade(self, request: SimulatedRequest) -> Callable[[socket.socket], None] | None: ...


class SimulatorServer(ThreadingHTTPServer):
    """A listener on loopback. With a TLS context the handshake is the connection's own thread's work."""

    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, app: App, port: int, context: ssl.SSLContext | None) -> None:
        self.app = app
        self.context = context
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def base(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.2,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SimulatorServer
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = _IDLE_S

    def setup(self) -> None:
        if self.server.context:
            self.request.settimeout(_IDLE_S)
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the counters have the requests."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.server.app.clock.now() if timestamp is None else timestamp)

    def _serve(self) -> None:
        request = self._read()
        app = self.server.app
        if request.headers.get("upgrade", "").lower() == "websocket":
            take = app.upgrade(request)
            if take is not None:
                self.close_connection = True
                take(self.connection)
                return
        target = self.path
        rule = app.faults.take(request.method, target)
        if rule and rule.kind == "delay":
            threading.Event().wait(rule.seconds)
        if rule and rule.kind == "drop-before":
            self._drop()
            return
        answer = rule.answer() if rule and rule.kind == "status" else app.answer(request)
        if rule and rule.kind == "drop-after":
            self._drop()
            return
        self._write(answer, cut=bool(rule and rule.kind == "truncate"))

    def _read(self) -> SimulatedRequest:
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = int(headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunks()
        pairs = dict(parse_qsl(query, keep_blank_values=True))
        return SimulatedRequest(self.command, path, pairs, headers, body, self.server.base)

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _write(self, answer: SimulatedResponse, *, cut: bool) -> None:
        payload = answer.payload()
        self.send_response(answer.status)
        if payload and "Content-Type" not in answer.headers:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload[: len(payload) // 2] if cut else payload)
        self.wfile.flush()
        if cut:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
