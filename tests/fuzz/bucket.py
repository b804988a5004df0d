"""A small S3 on loopback whose objects are those of an input: what a run left in an object store."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random
from urllib.parse import parse_qs, quote, unquote, urlsplit

from fuzz.case import Case
from fuzz.records import RUN, as_bytes, file_times, run_objects, snapshot_objects, wrong

_PATH = "/bucket/"
_PREFIX = "p/"
_DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
_SETTINGS = b"""\
target: here
targets: {here: {kind: local, store: s3}}
stores:
  s3: {url: s3://bucket/p, access_key: k, secret_key: '${env:DUMMY}', endpoint: 'http://127.0.0.1:{PORT}'}
"""
_IN_BUCKET = "UPDATE runs SET store = 's3://bucket/p', snapshot = ? WHERE id = ?"
_ASKED = [
    ["extract", RUN, "out"],
    ["extract", RUN, "out"],
    ["extract", RUN, "out"],
    ["cp", f"{RUN}:out", "here"],
    ["sync", f"{RUN}:", "here"],
    ["cat", f"{RUN}:out/m"],
    ["ls", "-r", f"{RUN}:"],
    ["du", f"{RUN}:"],
    ["q", RUN],
    ["logs", RUN],
    ["why", RUN],
    ["list", "runs", "--everywhere"],
    ["prune", "--older-than", "1d", "--code", "--dry-run"],
]


def object_store(rng: Random) -> Case:
    """A run in an object store of which one or two objects are wrong; most often the lists of kept files."""
    is_wrong = rng.random() < 0.3
    snapshot, code = snapshot_objects(rng if is_wrong and rng.random() < 0.5 else None)
    objects = run_objects(RUN, snapshot)
    found = {key: as_bytes(key, value) for key, value in objects.items()} | code
    found[f"runs/{RUN}/file-times"] = file_times(rng if is_wrong else None, snapshot)
    listed = [key for key in objects if key.endswith("files.jsonl")]
    for key in rng.sample([*objects, *listed * len(objects)], rng.choice([1, 1, 2])):
        found[key] = wrong(rng, key, objects[key])
    if rng.random() < 0.2:
        found.pop(rng.choice(list(found)))
    ledger = ((_IN_BUCKET, (snapshot, RUN)),)
    environ = {"DUMMY": "dummy"}
    files = {"gofer.yaml": _SETTINGS}
    return Case(tuple(rng.choice(_ASKED)), files, environ=environ, ledger=ledger, bucket=found)


def serve(server: socket.socket, objects: Mapping[str, bytes]) -> None:
    """Answer requests in a thread for as long as the process lives."""
    found = {_PREFIX + key: data for key, data in objects.items()}

    class Handler(_Handler):
        bucket = found

    web = HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    web.socket.close()
    web.socket = server
    threading.Thread(target=web.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    bucket: Mapping[str, bytes] = {}
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        if "list-type" in asked:
            self._send(200, _listing(self.bucket, asked.get("prefix", ""), asked.get("delimiter", "")))
            return
        data = self.bucket.get(unquote(address.path).removeprefix(_PATH))
        if data is None:
            self._send(404, b"<Error><Code>NoSuchKey</Code><Message>none such</Message></Error>")
            return
        bounds = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not bounds[1]:
            self._send(200, data)
            return
        start, end = int(bounds[0]), min(int(bounds[2] or len(data)), len(data) - 1)
        if start >= len(data):
            self._send(416, b"<Error><Code>InvalidRange</Code></Error>")
            return
        self._send(206, data[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{len(data)}"})

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._send(200, b"")

    def do_DELETE(self) -> None:
        self._send(204, b"")

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        known = {"Content-Length": str(len(body)), "ETag": '"0123"', "Last-Modified": _DATE}
        for name, value in {**known, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the output is that of gofer alone."""


def _listing(objects: Mapping[str, bytes], prefix: str, delimiter: str) -> bytes:
    keys, folders = [], dict[str, None]()
    for key in sorted(objects):
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if found:
            folders[f"{prefix}{head}{delimiter}"] = None
        else:
            keys.append(key)
    contents = "".join(
        f"<Contents><Key>{quote(key, safe='')}</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified>"
        f"<ETag>&quot;0123&quot;</ETag><Size>{len(objects[key])}</Size></Contents>"
        for key in keys
    )
    common = "".join(
        f"<CommonPrefixes><Prefix>{quote(one, safe='')}</Prefix></CommonPrefixes>" for one in folders
    )
    head = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
    return f"{head}{contents}{common}</ListBucketResult>".encode()
