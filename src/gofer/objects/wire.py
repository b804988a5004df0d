"""HTTP/1.1 to one server, over connections that stay open and that threads share.

Only the part of HTTP that object stores use, and gofer's own for speed: http.client spends more time on the
head of a small answer than all other code on a small object; here the head is one split.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from gofer.objects.link import PIECE, Bytes, Cut, HttpConnection, ResponseHead, StaleConnection
from gofer.objects.proxies import parse_proxy, proxy_for

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 10.0
SILENCE_TIMEOUT_S = 60.0
_MOST_IDLE = 256
_LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}")

_TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_contexts: Dict[Tuple[Optional[str], ...], ssl.SSLContext] = {}


class ServerAddress(NamedTuple):
    """The address of a server; `host_header` is the value of the Host header."""

    scheme: str
    host: str
    port: int
    host_header: str

    @classmethod
    def of(cls, url: str) -> ServerAddress:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"`{url}` is not the address of a service")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.netloc.rpartition("@")[2])


class Tls(NamedTuple):
    """How to trust a server, in place of the certificates that the system trusts.

    `server_name` is the name that the server's certificate must have; empty for the host of the address.
    """

    context: ssl.SSLContext
    server_name: str = ""


class HttpResponse:
    """An answer: its head, and its body, which the caller must read to its end or close. For one thread."""

    __slots__ = ("_chunked", "_endless", "_head", "_keep", "_last_chunk", "_left", "_link", "status")

    def __init__(self, link: HttpConnection, head: ResponseHead, has_body: bool) -> None:
        self.status = head.status
        self._head = head
        self._link: Optional[HttpConnection] = link
        self._chunked = has_body and head.is_chunked
        self._endless = has_body and not self._chunked and head.length is None
        # Bytes left of the body or of the chunk. Never 0 in an endless body, which ends with the connection.
        self._left = head.length if has_body and head.length and not self._chunked else int(self._endless)
        self._last_chunk = not self._chunked
        self._keep = not head.ends_it and not self._endless

    @property
    def headers(self) -> Dict[str, str]:
        """The headers, by lower-case name."""
        return self._head.fields()

    def read(self) -> bytes:
        """The whole body; Cut when it is shorter than the head says. Blocking."""
        if not self._last_chunk or self._endless:
            return b"".join(self.pieces())
        body = self._open().read_all(self._left) if self._left else b""
        if len(body) != self._left:
            raise self._cut()
        self._left = 0
        self.close()
        return body

    def read_into(self, buffer: memoryview) -> int:
        """Fill `buffer` from the body; return the number of bytes.

        Bytes that do not fit are not read. Blocking.
        """
        got = 0
        if self._endless or not self._last_chunk:
            return self._copy_into(buffer)
        want = min(len(buffer), self._left)
        while got < want:
            read = self._open().read_into(buffer[got:want])
            if not read:
                raise self._cut()
            got += read
        self._left -= got
        self.close()
        return got

    def _copy_into(self, buffer: memoryview) -> int:
        """As `read_into`, for a body of unknown length."""
        got = 0
        for piece in self.pieces():
            fits = piece[: len(buffer) - got]
            buffer[got : got + len(fits)] = fits
            got += len(fits)
            if got == len(buffer):
                break
        self.close()
        return got

    def pieces(self) -> Iterator[bytes]:
        """The body in pieces, as they arrive. Each step blocks."""
        while self._left or self._next_chunk():
            piece = self._open().read(PIECE if self._endless else min(self._left, PIECE))
            if not piece:
                if self._endless:
                    break
                raise self._cut()
            self._left -= 0 if self._endless else len(piece)
            yield piece
        self.close()

    def close(self) -> None:
        """Return the connection for other requests; close it instead when unread bytes are left on it."""
        link, self._link = self._link, None
        if link:
            link.release(keep=self._keep and not self._left and self._last_chunk)

    def _next_chunk(self) -> bool:
        if self._last_chunk:
            return False
        link = self._open()
        line = link.read_line() or link.read_line()  # an empty first line is the end of the chunk before
        try:
            self._left = int(line.split(b";")[0], 16)
        except ValueError:
            raise self._cut() from None
        if self._left < 0:
            raise self._cut()
        if self._left == 0:
            self._last_chunk = True
            while link.read_line():
                pass
        return self._left > 0

    def _open(self) -> HttpConnection:
        if self._link is None:
            raise Cut("the answer was closed")
        return self._link

    def _cut(self) -> Cut:
        self._keep = False
        self.close()
        return Cut("the answer is incomplete")


class Wire:
    """The connections to one server.

    Any thread may send; an answer belongs to the thread that sent the request.
    """

    def __init__(
        self,
        url: str,
        *,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
        tls: Optional[Callable[[], Tls]] = None,
        proxy_url: str = "",
        every_head: Tuple[Tuple[str, str], ...] = (),
    ) -> None:
        """`tls` is called for each new connection. `proxy_url` replaces the proxy of the environment.
        `every_head` are headers of every request; a name may occur in it several times.
        """
        self.server = ServerAddress.of(url)
        self._silence_timeout_s = silence_timeout_s
        self._tls = tls
        self._every_head = every_head
        self._proxy = (
            parse_proxy(proxy_url)
            if proxy_url
            else proxy_for(self.server.scheme, self.server.host, os.environ)
        )
        self._idle: List[HttpConnection] = []
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def is_guarded(self) -> bool:
        """As `Client.is_guarded`."""
        host = self.server.host
        here = host in ("localhost", "::1") or _LOOPBACK.fullmatch(host) is not None
        return self.server.scheme == "https" or (here and self._proxy is None)

    def send(
        self, method: str, target: str, headers: Dict[str, str], body: Optional[Bytes] = None
    ) -> HttpResponse:
        """Send one request and return its answer when the head is there.

        Blocking; an OSError without an answer.
        """
        link, is_new = self._link()
        try:
            link.write(self._head(method, target, headers, body), body)
            head = link.read_head()
            while 100 <= head.status < 200:  # interim answers, such as `100 Continue`
                head = link.read_head()
        except StaleConnection:
            link.release(keep=False)
            raise (
                Cut("the server closed the connection without an answer") if is_new else StaleConnection()
            ) from None
        except BaseException:
            link.release(keep=False)
            raise
        return HttpResponse(link, head, method != "HEAD" and head.status not in (204, 304))

    def open_tunnel(self) -> socket.socket:
        """A connection of its own to the server, with TLS where the server has it, for another protocol than
        requests and answers. A proxy passes its bytes on unchanged.
        """
        return self._connect(tunnels=True)

    def close(self) -> None:
        """Close the idle connections. Those in use are closed when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.release(keep=False)

    def _head(self, method: str, target: str, headers: Dict[str, str], body: Optional[Bytes]) -> bytes:
        if self._proxy and self.server.scheme == "http":
            target = f"http://{self.server.host_header}{target}"
            if self._proxy.authorization:
                headers = {**headers, "Proxy-Authorization": self._proxy.authorization}
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.server.host_header}"]
        lines += [f"{name}: {value}" for name, value in (*headers.items(), *self._every_head)]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _link(self) -> tuple[HttpConnection, bool]:
        with self._lock:
            if self._pid != os.getpid():  # after a fork, the idle connections belong to the parent
                self._idle, self._pid = [], os.getpid()
            if self._idle:
                return self._idle.pop(), False
        return HttpConnection(self._connect(), self.take_back, whole=self.server.scheme == "http"), True

    def _connect(self, tunnels: bool = False) -> socket.socket:
        server, proxy = self.server, self._proxy
        address = (proxy.host, proxy.port) if proxy else (server.host, server.port)
        sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
        try:
            # Otherwise the system delays small packets after a request's head.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if proxy and (tunnels or server.scheme == "https"):
                _tunnel(HttpConnection(sock, self.take_back), server, proxy.authorization)
            if server.scheme == "https":
                tls = self._tls() if self._tls else Tls(trusted())
                sock = tls.context.wrap_socket(sock, server_hostname=tls.server_name or server.host)
                sock.settimeout(self._silence_timeout_s)
            else:
                _be_patient(sock, self._silence_timeout_s)
        except BaseException:
            sock.close()
            raise
        return sock

    def take_back(self, link: HttpConnection) -> bool:
        """Keep a connection for later requests; False when there are enough."""
        with self._lock:
            if len(self._idle) >= _MOST_IDLE or self._pid != os.getpid():
                return False
            self._idle.append(link)
            return True


def _tunnel(link: HttpConnection, server: ServerAddress, authorization: Optional[str]) -> None:
    lines = [f"CONNECT {server.host}:{server.port} HTTP/1.1", f"Host: {server.host}:{server.port}"]
    if authorization:
        lines.append(f"Proxy-Authorization: {authorization}")
    link.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), None)
    status = link.read_head().status
    if status != 200:
        raise Cut(f"the proxy answered {status}")


def _be_patient(sock: socket.socket, silence_s: float) -> None:
    """Set the timeout in the system instead of in Python, which would make two more calls for each one.

    A timeout then raises BlockingIOError.
    """
    limit = struct.pack("ll", int(silence_s), int(silence_s % 1 * 1e6))
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def trusted() -> ssl.SSLContext:
    """The certificates to trust, read once. SSL_CERT_FILE and SSL_CERT_DIR replace those of the system.

    REQUESTS_CA_BUNDLE adds certificates where SSL_CERT_FILE is not set.
    """
    named = tuple(os.environ.get(name) for name in _TRUSTED)
    if named not in _contexts:
        import ssl

        context = ssl.create_default_context()
        more = named[-1]
        if more and os.path.exists(more) and not named[0]:
            is_folder = os.path.isdir(more)
            context.load_verify_locations(None if is_folder else more, more if is_folder else None)
        _contexts[named] = context
    return _contexts[named]
