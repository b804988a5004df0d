"""An HTTPS server with a certificate authority for tests; it records each request that it gets."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Pair(NamedTuple):
    """A certificate and its key, both PEM text."""

    certificate: str
    key: str

    @property
    def data(self) -> tuple[str, str]:
        """Both as a kubeconfig has them in `…-data`."""
        return encoded(self.certificate), encoded(self.key)


class Seen(NamedTuple):
    """A request: method, path with query, headers as sent, the body, and who the client certificate names."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    client: str


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Authority:
    """A certificate authority."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self._certificate = self._signed(self._name, self._key.public_key(), is_ca=True, names=[])
        self.pem = _pem(self._certificate)

    def pair(self, common_name: str, *names: str) -> Pair:
        """A certificate for a server with these names, or for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
        certificate = self._signed(subject, key.public_key(), is_ca=False, names=alternatives)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Pair(_pem(certificate), secret.decode())

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        is_ca: bool,
        names: list[x509.GeneralName],
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


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
