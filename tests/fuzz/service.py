"""An object store on loopback that answers every request with what the input says, and its answers."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Sequence
from random import Random

from fuzz.case import Case
from fuzz.mutation import damaged
from fuzz.words import word

_MOST_REQUEST = 1 << 20
_DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
_AZURE_PAGE = (
    '<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs><Blob><Name>p/d/x</Name><Properties>'
    f"<Creation-Time>{_DATE}</Creation-Time><Last-Modified>{_DATE}</Last-Modified><Etag>0x8D</Etag>"
    "<Content-Length>12</Content-Length><Content-MD5>xxxxxxxxxxxxxxxxxxxxxx==</Content-MD5>"
    "<BlobType>BlockBlob</BlobType></Properties><Metadata><Mtime>2023-11-14T22:13:20Z</Mtime>"
    "<mode>100755</mode></Metadata></Blob><BlobPrefix><Name>p/d/y/</Name></BlobPrefix></Blobs>"
    "<NextMarker></NextMarker></EnumerationResults>"
)
_S3_PAGE = (
    '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>'
    "<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType><KeyCount>1</KeyCount><Contents>"
    "<Key>p%2Fd%2Fx</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified><ETag>&quot;0123&quot;</ETag>"
    "<Size>12</Size><StorageClass>STANDARD</StorageClass></Contents>"
    "<CommonPrefixes><Prefix>p%2Fd%2Fy%2F</Prefix></CommonPrefixes></ListBucketResult>"
)
_ERROR = '<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>none such</Message></Error>'
_BODIES = {"s3": [_S3_PAGE, _S3_PAGE, _ERROR, "hello"], "az": [_AZURE_PAGE, _AZURE_PAGE, _ERROR, "hello"]}
# Those that are tried again are left out: the waits would be longer than everything else.
_STATUSES = [200, 200, 200, 200, 206, 204, 301, 400, 401, 403, 404, 409, 412, 416]
_HEADERS = {
    "ETag": '"0123"',
    "Last-Modified": _DATE,
    "Content-Range": "bytes 0-4/5",
    "x-amz-meta-mtime": "1700000000.5",
    "x-ms-meta-mtime": "2023-11-14T22:13:20Z",
    "x-ms-meta-mode": "100755",
    "x-ms-error-code": "BlobNotFound",
    "Content-MD5": "xxxxxxxxxxxxxxxxxxxxxx==",
    "Location": "http://127.0.0.1:9/",
}
_SETTINGS = b"""\
folders: {data: {store: KIND, path: d}}
target: here
targets: {here: {kind: local, store: KIND}}
stores:
  s3: {url: s3://bucket/p, access_key: k, secret_key: '${env:DUMMY}', endpoint: 'http://127.0.0.1:{PORT}'}
  az: {url: az://container/p, account: acct, key: '${env:DUMMY}', endpoint: 'http://127.0.0.1:{PORT}/acct'}
"""


def service_answers(rng: Random) -> Case:
    """What an object store answers: listings, heads, contents and errors that are not as they should be."""
    kind = rng.choice(["s3", "az"])
    argv = rng.choice(
        [
            ["ls", "data"],
            ["ls", "-r", "data"],
            ["ls", "data/x"],
            ["du", "data"],
            ["cat", "data/x"],
            ["d", "data/x"],
            ["d", "--dry-run", "data"],
            ["cp", "data/x", "here"],
            ["sync", "--dry-run", "data", "here"],
            ["rm", "--dry-run", "data/x"],
            ["url", "data/x"],
            ["list", "runs", "--everywhere"],
            ["store", "check", kind],
        ]
    )
    answers = tuple(_answer(rng, kind) for _ in range(rng.randrange(1, 4)))
    files = {"gofer.yaml": _SETTINGS.replace(b"KIND", kind.encode())}
    return Case(tuple(argv), files, environ={"DUMMY": "ZHVtbXk="}, answers=answers)


def _answer(rng: Random, kind: str) -> bytes:
    body = _wrong_page(rng, rng.choice(_BODIES[kind]))
    headers = {name: value for name, value in _HEADERS.items() if rng.random() < 0.5}
    if headers and rng.random() < 0.4:
        name = rng.choice(list(headers))
        headers[name] = word(rng).replace("\n", " ").replace("\r", " ")
    lines = [f"HTTP/1.1 {rng.choice(_STATUSES)} x", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("utf-8", "surrogatepass")
    return head + b"\r\n\r\n" + body


def _wrong_page(rng: Random, text: str) -> bytes:
    kind = rng.random()
    data = text.encode()
    if kind < 0.2:
        return data
    if kind < 0.35:
        return damaged(rng, data)
    if kind < 0.45:
        return rng.choice(
            [b"", b"<" * 3000, b"<a>" * 5000, b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', b"{}"]
        )
    # The text of one element is another one.
    pieces = text.split(">")
    places = [at for at, piece in enumerate(pieces) if "</" in piece and not piece.startswith("</")]
    if not places:
        return damaged(rng, data)
    at = rng.choice(places)
    value = rng.choice(
        [
            word(rng),
            "..",
            "../../x",
            "/x",
            "p/d//x",
            "p/d/",
            "p/d/..",
            "9" * 30,
            "-1",
            "²",
            "%00",
            "%ff",
            "p%2Fd%2F..%2Fx",
        ]
    )
    pieces[at] = value.replace("&", "&amp;").replace("<", "&lt;") + pieces[at][pieces[at].index("</") :]
    return ">".join(pieces).encode("utf-8", "surrogatepass")


def listen() -> socket.socket:
    """A socket on a free port of loopback."""
    return socket.create_server(("127.0.0.1", 0))


def serve(server: socket.socket, answers: Sequence[bytes]) -> None:
    """Answer requests in a thread for as long as the process lives."""
    turn = itertools.cycle(answers)
    threading.Thread(target=_serve, args=(server, turn), daemon=True).start()


def _serve(server: socket.socket, turn: itertools.cycle[bytes]) -> None:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5.0)
            data = b""
            while b"\r\n\r\n" not in data and len(data) < _MOST_REQUEST:
                more = connection.recv(65536)
                if not more:
                    break
                data += more
            connection.sendall(next(turn))
