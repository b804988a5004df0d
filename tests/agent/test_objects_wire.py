"""HTTP as servers really speak it: chunks, bodies without a length, early refusals, nonsense."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gofer.core.store_spec import StoreSpec
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.objects.link import Cut
from gofer.objects.proxies import proxy_for
from gofer.objects.read import Ahead
from gofer.objects.wire import Wire


@contextmanager
def server(*answers: bytes, read: int = 1 << 20) -> Iterator[tuple[int, list[bytes]]]:
    """Answers each request with the next of `answers`; yields its port and the requests it heard."""
    messages: list[bytes] = []
    rest = list(answers)
    listener = socket.create_server(("127.0.0.1", 0))

    def received(link: socket.socket) -> bytes:
        try:
            return link.recv(read)
        except ConnectionResetError:
            return b""

    def serve() -> None:
        while rest:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            with link:
                while rest and (data := received(link)):
                    messages.append(data)
                    answer = rest.pop(0)
                    link.sendall(answer)
                    if b"close" in answer.split(b"\r\n\r\n")[0] or b"content-length" not in answer.lower():
                        break

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], messages
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def ask(port: int, method: str = "GET") -> tuple[int, bytes]:
    answer = Wire(f"http://127.0.0.1:{port}").send(method, "/x", {})
    return answer.status, answer.read()


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndata", 200, b"data"),
        (b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n3;x=y\r\n on\r\n0\r\n\r\n",
            200,
            b"data on",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: 1\r\n\r\n", 200, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, b""),
    ],
)
def test_bodies_of_all_kinds(answer: bytes, status: int, body: bytes) -> None:
    with server(answer) as (port, _):
        assert ask(port) == (status, body)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a number\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"close",
    ],
)
def test_answers_that_are_cut_or_nonsense(answer: bytes) -> None:
    with server(answer) as (port, _), pytest.raises(Cut):
        ask(port)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 206 OK\r\nContent-Length: 7\r\n\r\ndata on",
        b"HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n3\r\n on\r\n0\r\n\r\n",
        b"HTTP/1.1 206 OK\r\n\r\ndata on",
    ],
)
@pytest.mark.parametrize("size", [4, 7, 20])
def test_bodies_of_all_kinds_are_read_in_place(answer: bytes, size: int) -> None:
    with server(answer) as (port, _):
        buffer = bytearray(size)
        read = Wire(f"http://127.0.0.1:{port}").send("GET", "/x", {}).read_into(memoryview(buffer))
        assert (read, bytes(buffer[:read])) == (min(size, 7), b"data on"[:size])


def test_the_answer_to_head_has_no_body() -> None:
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as (port, _):
        assert ask(port, "HEAD") == (200, b"")


def test_a_connection_serves_several_requests() -> None:
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    with server(plain, plain, plain) as (port, heard):
        wire = Wire(f"http://127.0.0.1:{port}")
        for _ in range(3):
            assert wire.send("GET", "/x", {}).read() == b"hi"
        assert len(heard) == 3
        wire.close()


def test_a_body_that_is_not_read_ends_its_connection() -> None:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)
    with server(large, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") as (port, _):
        wire = Wire(f"http://127.0.0.1:{port}")
        wire.send("GET", "/x", {}).close()
        assert wire.send("GET", "/x", {}).read() == b"hi"


def test_a_refusal_in_the_middle_of_a_body_is_read() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    with server(refusal, read=1000) as (port, _):
        answer = Wire(f"http://127.0.0.1:{port}").send("PUT", "/x", {}, bytes(50 << 20))
        assert (answer.status, answer.read()) == (403, b"no")


def test_plain_requests_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") as (port, heard):
        monkeypatch.setenv("http_proxy", f"http://user:dummy%20pass@127.0.0.1:{port}")
        answer = Wire("http://store.example.org:8080/acct").send("GET", "/acct/x", {})
        assert answer.read() == b"hi"
        assert heard[0].startswith(b"GET http://store.example.org:8080/acct/x HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic dXNlcjpkdW1teSBwYXNz\r\n" in heard[0]


def test_tls_goes_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n") as (port, heard):
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
        with pytest.raises(Cut, match="the proxy answered 407"):
            Wire("https://store.example.org").send("GET", "/x", {})
        assert heard[0].startswith(b"CONNECT store.example.org:443 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("host", "environ", "found"),
    [
        ("h.example.org", {}, None),
        ("h.example.org", {"https_proxy": "http://p:1"}, ("p", 1)),
        ("h.example.org", {"HTTPS_PROXY": "p:1"}, ("p", 1)),
        ("h.example.org", {"https_proxy": "http://p:1", "no_proxy": "other,.example.org"}, None),
        ("h.example.org", {"https_proxy": "http://p:1", "NO_PROXY": "*"}, None),
        ("myexample.org", {"https_proxy": "http://p:1", "no_proxy": "example.org"}, ("p", 1)),
        ("127.0.0.1", {"https_proxy": "http://p:1"}, None),
        ("localhost", {"https_proxy": "http://p:1"}, None),
    ],
)
def test_which_hosts_have_a_proxy(host: str, environ: dict[str, str], found: tuple[str, int] | None) -> None:
    proxy = proxy_for("https", host, environ)
    assert (proxy and proxy[:2]) == found


@pytest.mark.parametrize(
    ("url", "proxy", "guarded"),
    [
        ("https://acct.example", None, True),
        ("http://127.0.0.1:10000", None, True),
        ("http://localhost:10000", None, True),
        ("http://[::1]:10000", None, True),
        ("http://10.0.0.1", None, False),
        ("http://127.example", None, False),
        ("http://storage.example", "http://127.0.0.1:3128", False),
    ],
)
def test_bytes_are_safe_under_tls_and_within_the_machine(
    url: str, proxy: str | None, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if proxy:
        monkeypatch.setenv("http_proxy", proxy)
    assert Wire(url).is_guarded is guarded


@pytest.mark.parametrize("far", [True, False], ids=["far", "here"])
def test_a_block_has_an_md5_where_the_way_is_not_safe(far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The far service is reached through a proxy, which is the server of this test."""
    with server(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n") as (port, heard):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        host = "storage.example" if far else f"127.0.0.1:{port}"
        spec: StoreSpec = {
            "kind": "azure",
            "endpoint": f"http://{host}",
            "container": "c",
            "sas": "sig=dummy",
        }
        objects = open_objects(spec)
        assert isinstance(objects, ObjectService)
        objects.put_block("k", "upload", 0, b"abc")
    assert (b"\r\nContent-MD5: kAFQmDzST7DWlj99KOF/cg==\r\n" in heard[0]) is far


def listing_page(number: int, more: str) -> bytes:
    text = f"<Blobs><BlobPrefix><Name>{number}/</Name></BlobPrefix></Blobs><NextMarker>{more}</NextMarker>"
    text = f"<EnumerationResults>{text}</EnumerationResults>"
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def test_the_third_page_is_fetched_while_the_second_is_read() -> None:
    with server(listing_page(1, "b"), listing_page(2, "c"), listing_page(3, "")) as (port, heard):
        spec: StoreSpec = {
            "kind": "azure",
            "endpoint": f"http://127.0.0.1:{port}",
            "container": "c",
            "sas": "sig=dummy",
        }
        objects = open_objects(spec)
        assert isinstance(objects, ObjectService)
        listed = objects.list_folders()
        assert next(listed) == "1"
        assert len(heard) == 1  # who only wants to know whether there is something asks once
        assert next(listed) == "2"
        deadline = time.monotonic() + 60
        while len(heard) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert b"marker=c" in heard[2]
        assert list(listed) == ["3"]


def test_an_error_of_a_read_ahead_is_raised_at_its_own_read() -> None:
    def fail() -> int:
        raise ValueError("dummy")

    failing, working = Ahead(fail), Ahead(lambda: 7)
    assert working.result() == working.result() == 7
    for _ in range(2):
        with pytest.raises(ValueError, match="dummy"):
            failing.result()
