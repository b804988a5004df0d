"""Credentials for Azure Blob Storage: an account key, a shared access signature (SAS), or a token of Azure
AD.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qsl, unquote

from gofer.objects.client import HttpRequest, Signer, query_text
from gofer.objects.names import in_query

# A version that emulators and private clouds support too, and that has every feature used here.
VERSION = "2022-11-02"
_SIGNED_HEADERS = (
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-MD5",
    "Content-Type",
    "Date",
    "If-Modified-Since",
    "If-Match",
    "If-None-Match",
    "If-Unmodified-Since",
    "Range",
)
_NO_HEADERS = ("",) * len(_SIGNED_HEADERS)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class SharedKey(Signer):
    """Signs each request with the account's key."""

    def __init__(self, account: str, key: str) -> None:
        self.account = account
        self._key = base64.b64decode(key)
        self.mark = _mark(key)

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        headers = {**request.headers, "x-ms-date": http_now(), "x-ms-version": VERSION}
        lines = [request.method]
        if request.headers or request.body:
            plain = {**headers, "Content-Length": str(len(request.body)) if request.body else ""}
            lines += [plain.get(name, "") for name in _SIGNED_HEADERS]
        else:
            lines += _NO_HEADERS
        ours = [(name.lower(), value) for name, value in headers.items() if name.startswith("x-ms-")]
        lines += [f"{name}:{value}" for name, value in sorted(ours)]
        lines.append(f"/{self.account}{request.path}")
        if request.query:
            lines += [f"{name}:{value}" for name, value in sorted(request.query.items())]
        headers["Authorization"] = f"SharedKey {self.account}:{self.digest(lines)}"
        return request.target, headers

    def digest(self, lines: list[str]) -> str:
        """The signature of the lines, joined by line ends."""
        return signature(self._key, lines)


class Sas(Signer):
    """Adds a SAS to each request."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.mark = _mark(token)

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        text = query_text(request.query)
        target = f"{request.path}{text}&{self.token}" if text else f"{request.path}?{self.token}"
        return target, {**request.headers, "x-ms-version": VERSION}


def _mark(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


class Bearer(Signer):
    """Adds a token to each request.

    `fetch` returns a token and its end; it is called before the token expires.
    """

    def __init__(self, fetch: Callable[[], Tuple[str, float]]) -> None:
        self._fetch = fetch
        self._token: Optional[Tuple[str, float]] = None
        self._lock = threading.Lock()

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        with self._lock:  # one thread fetches a token, the others wait for it
            # Five minutes early, so that a long request does not outlive its token.
            if self._token is None or self._token[1] - time.time() < 300:
                self._token = self._fetch()
            token = self._token
        headers = {**request.headers, "Authorization": f"Bearer {token[0]}"}
        return request.target, {**headers, "x-ms-date": http_now(), "x-ms-version": VERSION}

    def renew(self) -> bool:
        self._token = None
        return True


class SasTerms(NamedTuple):
    """What a SAS allows. `resource` is `c` for a container, `b` for the blob `name`, or `d` for everything
    below the folder `name`, which only accounts with a hierarchical namespace support.
    """

    permissions: str
    expires_at: float
    resource: str
    container: str
    name: str = ""

    @property
    def scope(self) -> Dict[str, str]:
        """The fields of a SAS for its scope. For a folder they include the depth of the folder."""
        depth = {"sdd": str(len(self.name.split("/")))} if self.resource == "d" else {}
        return {"sr": self.resource, **depth}


def make_sas(key: SharedKey, terms: SasTerms) -> str:
    """A SAS signed with the account's key, valid at once.

    It names no start time: where the clock of this machine is ahead, a start time would delay it.
    """
    expires = utc(terms.expires_at)
    place = f"/blob/{key.account}/{terms.container}" + (f"/{terms.name}" if terms.name else "")
    # The format has sixteen lines. After the place: identifier, addresses, protocol, version, resource,
    # snapshot, encryption scope, and five headers of the answer.
    lines = [terms.permissions, "", expires, place, "", "", "", VERSION, terms.resource, "", ""]
    signed = key.digest([*lines, "", "", "", "", ""])
    fields = {"sv": VERSION, "se": expires, **terms.scope, "sp": terms.permissions}
    return "&".join(f"{name}={in_query(value)}" for name, value in {**fields, "sig": signed}.items())


def sas_fields(token: str) -> Dict[str, str]:
    """The fields of a SAS, decoded."""
    return dict(parse_qsl(token, keep_blank_values=True))


def bare_token(text: str) -> str:
    """The token from a SAS as people store it: after a `?`, in a URL, or between spaces."""
    text = text.strip()
    token = text.partition("?")[2] if "?" in text else text
    # A token without `&` has been URL-encoded twice.
    return unquote(token) if "&" not in token and "%26" in token else token


def signature(key: bytes, lines: list[str]) -> str:
    """HMAC-SHA256 of the lines, in base64."""
    return base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), "sha256")).decode()


def utc(seconds: float) -> str:
    """The time in the format of a SAS."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def http_now(last: List[Tuple[int, str]] = [(0, "")]) -> str:  # noqa: B006
    """The time in HTTP's format, whatever the locale. Cached, since many requests fall into one second."""
    seconds = int(time.time())
    known, text = last[0]
    if known != seconds:
        now = time.gmtime(seconds)
        clock = time.strftime("%H:%M:%S", now)
        text = f"{_DAYS[now.tm_wday]}, {now.tm_mday:02d} {_MONTHS[now.tm_mon - 1]} {now.tm_year} {clock} GMT"
        last[0] = (seconds, text)
    return text
