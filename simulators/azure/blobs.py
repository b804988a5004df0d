"""A small client of the blob service, for one container and one credential. Blocking; one thread each."""

from __future__ import annotations

import http.client
import re
import ssl
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

_TIMEOUT_S = 60.0
_VERSION = "2021-12-02"
_TRIES = 4


class BlobError(Exception):
    """The storage service refused: its status and its own code."""

    def __init__(self, status: int, code: str, what: str) -> None:
        super().__init__(f"{what}: {status} {code}")
        self.status = status
        self.code = code


class Blob(NamedTuple):
    name: str
    size: int
    etag: str


class Container:
    """`endpoint` is the account's, as `https://127.0.0.1:1000/account`; `sas` or `bearer` opens it."""

    def __init__(
        self, endpoint: str, name: str, context: ssl.SSLContext | None, *, sas: str = "", bearer: str = ""
    ):
        self.url = urlsplit(endpoint)
        self.name = name
        self._context = context
        self._sas = sas.lstrip("?")
        self._bearer = bearer
        self._line: http.client.HTTPConnection | None = None

    def create(self) -> None:
        """Nothing happens when it exists."""
        self._ask("PUT", "", "restype=container", allowed=(201, 409))

    def get(self, name: str) -> bytes:
        return self._ask("GET", name)[1]

    def put(self, name: str, data: bytes) -> None:
        self._ask("PUT", name, body=data, headers={"x-ms-blob-type": "BlockBlob"})

    def delete(self, name: str) -> None:
        self._ask("DELETE", name, allowed=(202, 404))

    def start_append(self, name: str) -> None:
        """An empty append blob; one that exists is kept as it is."""
        headers = {"x-ms-blob-type": "AppendBlob", "If-None-Match": "*"}
        self._ask("PUT", name, headers=headers, allowed=(201, 409))

    def append(self, name: str, data: bytes) -> None:
        for start in range(0, len(data), 4 << 20):
            self._ask("PUT", name, "comp=appendblock", body=data[start : start + (4 << 20)])

    def size(self, name: str) -> int | None:
        """Of a blob, in bytes; None when there is no such blob."""
        status, _, headers = self._ask("HEAD", name, allowed=(200, 404))
        return int(headers.get("content-length", 0)) if status == 200 else None

    def list(self, prefix: str) -> Iterator[Blob]:
        marker = ""
        while True:
            query = urlencode({"restype": "container", "comp": "list", "prefix": prefix, "marker": marker})
            root = ElementTree.fromstring(self._ask("GET", "", query)[1])
            for item in root.iter("Blob"):
                properties = item.find("Properties")
                assert properties is not None
                size = int(properties.findtext("Content-Length") or 0)
                yield Blob(item.findtext("Name") or "", size, properties.findtext("Etag") or "")
            marker = root.findtext("NextMarker") or ""
            if not marker:
                return

    def close(self) -> None:
        if self._line:
            self._line.close()
            self._line = None

    def _ask(
        self,
        method: str,
        blob: str,
        query: str = "",
        *,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        allowed: tuple[int, ...] = (200, 201, 202, 206),
    ) -> tuple[int, bytes, dict[str, str]]:
        path = f"{self.url.path.rstrip('/')}/{self.name}" + (f"/{quote(blob)}" if blob else "")
        words = "&".join(part for part in (query, self._sas) if part)
        sent = {"x-ms-version": _VERSION, "Content-Length": str(len(body)), **(headers or {})}
        if self._bearer:
            sent["Authorization"] = f"Bearer {self._bearer}"
        status, data, is_told = self._patiently(method, f"{path}?{words}", body, sent)
        if status not in allowed:
            code = is_told.get("x-ms-error-code") or _code(data)
            raise BlobError(status, code, f"{method} {self.name}/{blob}")
        return status, data, is_told

    def _patiently(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        """Again after a broken line or a failing server, a few times."""
        for left in range(_TRIES - 1, -1, -1):
            try:
                answer = self._send(method, target, body, headers)
            except (OSError, http.client.HTTPException):
                self.close()
                if not left:
                    raise
            else:
                if answer[0] < 500 or not left:
                    break
            time.sleep(0.2)
        return answer

    def _send(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        if self._line is None:
            host = self.url.netloc
            if self.url.scheme == "https":
                self._line = http.client.HTTPSConnection(host, timeout=_TIMEOUT_S, context=self._context)
            else:
                self._line = http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
        self._line.request(method, target, body=body or None, headers=headers)
        answer = self._line.getresponse()
        data = answer.read()
        return answer.status, data, {name.lower(): value for name, value in answer.getheaders()}


def _code(data: bytes) -> str:
    found = re.search(rb"<Code>(\w+)</Code>", data)
    return found[1].decode() if found else "Unknown"
