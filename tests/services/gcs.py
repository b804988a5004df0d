"""A small Google Cloud Storage: the XML interface as far as obstore speaks it. It checks no login.

There is none to install, so what passes here says how gofer uses obstore, not how Google answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

# The JSON of a service account that signs nothing.
SERVICE_ACCOUNT = """{"gcs_base_url": "%s", "disable_oauth": true, "client_email": "", "private_key": "",
 "private_key_id": ""}"""

_BEGUN = "InitiateMultipartUploadResult"
_DONE = "CompleteMultipartUploadResult"


class Held(NamedTuple):
    """One object."""

    data: bytes
    generation: int
    at: float
    metadata: dict[str, str]


class Bucket:
    """The objects and unfinished uploads of the one bucket there is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, Held] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.generation = 0

    def keep(self, name: str, data: bytes, metadata: dict[str, str]) -> Held:
        self.generation += 1
        self.objects[name] = Held(data, self.generation, time.time(), metadata)
        return self.objects[name]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def _parse(self) -> tuple[str, dict[str, str], bytes]:
        parts = urlsplit(self.path)
        name = unquote(parts.path).lstrip("/").partition("/")[2]
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return name, query, self.rfile.read(int(self.headers.get("content-length", "0")))

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _held(self, held: Held, status: int = 200, body: bytes | None = None, **headers: str) -> None:
        facts = {
            "etag": f'"{held.generation}"',
            "x_goog_generation": str(held.generation),
            "last_modified": formatdate(held.at, usegmt=True),
            **{f"x-goog-meta-{key}": value for key, value in held.metadata.items()},
        }
        if self.command == "HEAD":
            facts["content_length"] = str(len(held.data))
        self._answer(status, b"" if body is None else body, **facts, **headers)

    def do_PUT(self) -> None:
        name, query, body = self._parse()
        bucket, source = self.bucket, self.headers.get("x-goog-copy-source")
        with bucket.lock:
            if "uploadId" in query:
                bucket.parts[query["uploadId"]][int(query["partNumber"])] = body
                return self._answer(200, etag=f'"{query["partNumber"]}"')
            if self.headers.get("x-goog-if-generation-match") == "0" and name in bucket.objects:
                return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            metadata = {
                key.lower().removeprefix("x-goog-meta-"): value
                for key, value in self.headers.items()
                if key.lower().startswith("x-goog-meta-")
            }
            if source:
                held = bucket.objects.get(unquote(source).lstrip("/").partition("/")[2])
                if held is None:
                    return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                body, metadata = held.data, held.metadata
            return self._held(bucket.keep(name, body, metadata))

    def do_POST(self) -> None:
        name, query, _ = self._parse()
        bucket = self.bucket
        with bucket.lock:
            if "uploads" in query:
                upload = str(len(bucket.parts))
                bucket.parts[upload] = {}
                return self._answer(200, f"<{_BEGUN}><UploadId>{upload}</UploadId></{_BEGUN}>".encode())
            parts = bucket.parts.pop(query["uploadId"])
            held = bucket.keep(name, b"".join(data for _, data in sorted(parts.items())), {})
            return self._held(held, body=f'<{_DONE}><ETag>"{held.generation}"</ETag></{_DONE}>'.encode())

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name, query, _ = self._parse()
        with self.bucket.lock:
            if not name:
                return self._answer(200, self._listing(query).encode())
            held = self.bucket.objects.get(name)
        if held is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        span = self.headers.get("range", "").removeprefix("bytes=")
        if not span:
            return self._held(held, body=held.data)
        first, _, last = span.partition("-")
        start, end = int(first), min(int(last) if last else len(held.data), len(held.data) - 1)
        if start >= len(held.data):
            return self._answer(416)
        fields = {"content_range": f"bytes {start}-{end}/{len(held.data)}"}
        return self._held(held, 206, held.data[start : end + 1], **fields)

    def do_DELETE(self) -> None:
        name, query, _ = self._parse()
        with self.bucket.lock:
            if "uploadId" in query:
                self.bucket.parts.pop(query["uploadId"], None)
            elif self.bucket.objects.pop(name, None) is None:
                return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self._answer(204)

    def _listing(self, query: dict[str, str]) -> str:
        prefix, delimiter, most = query.get("prefix", ""), query.get("delimiter", ""), 3
        after = query.get("continuation-token", "")
        names = [name for name in sorted(self.bucket.objects) if name.startswith(prefix) and name > after]
        items, folders = [], []
        for name in names[:most]:
            held = self.bucket.objects[name]
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(held.at))
            items.append(
                f"<Contents><Key>{escape(name)}</Key><Size>{len(held.data)}</Size>"
                f'<LastModified>{when}</LastModified><ETag>"{held.generation}"</ETag></Contents>'
            )
        groups = [
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            for name in dict.fromkeys(folders)
        ]
        more = ""
        if len(names) > most:
            more = f"<NextContinuationToken>{escape(names[most - 1])}</NextContinuationToken>"
        return f"<ListBucketResult>{''.join(items + groups)}{more}</ListBucketResult>"


@contextmanager
def gcs() -> Iterator[str]:
    """The address of a service with one empty bucket, whatever it is called."""
    handler = type("Handler", (_Handler,), {"bucket": Bucket()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
