"""What opens Azure Blob Storage: the account's key, a shared access signature (SAS), a token of Azure AD."""

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

# Old enough for emulators and private clouds, new enough for all that is used here.
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
        """The signature of the lines."""
        return signature(self._key, lines)


class Sas(Signer):
    """Hands a given signature on with each request."""

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
    """A token, asked for again before it expires. `fetch` returns it and the time of its end."""

    def __init__(self, fetch: Callable[[], Tuple[str, float]]) -> None:
        self._fetch = fetch
        self._token: Optional[Tuple[str, float]] = None
        self._lock = threading.Lock()

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        with self._lock:  # one thread asks, the others wait for its answer
            if self._token is None or self._token[1] - time.time() < 300:
                self._token = self._fetch()
            token = self._token
        headers = {**request.headers, "Authorization": f"Bearer {token[0]}"}
        return request.target, {**headers, "x-ms-date": http_now(), "x-ms-version": VERSION}

    def renew(self) -> bool:
        self._token = None
        return True


class SasTerms(NamedTuple):
    """What a SAS is to allow: `resource` is `c` for a container, `b` for the blob `name`, or `d` for all that
    is below the folder `name`, which accounts with a hierarchical namespace know.
    """

    permissions: str
    expires_at: float
    resource: str
    container: str
    name: str = ""

    @property
    def scope(self) -> Dict[str, str]:
        """What a SAS says of its reach; of a folder also how deep it lies."""
        depth = {"sdd": str(len(self.name.split("/")))} if self.resource == "d" else {}
        return {"sr": self.resource, **depth}


def make_sas(key: SharedKey, terms: SasTerms) -> str:
    """A SAS signed with the account's key, valid at once. It says nothing of its start: the clock of who
    makes it may be ahead.
    """
    expires = utc(terms.expires_at)
    place = f"/blob/{key.account}/{terms.container}" + (f"/{terms.name}" if terms.name else "")
    # Fifteen lines: after the place come identifier, addresses, protocol, version, resource, snapshot,
    # encryption scope, and five headers of the answer.
    lines = [terms.permissions, "", expires, place, "", "", "", VERSION, terms.resource, "", ""]
    signed = key.digest([*lines, "", "", "", "", ""])
    fields = {"sv": VERSION, "se": expires, **terms.scope, "sp": terms.permissions}
    return "&".join(f"{name}={in_query(value)}" for name, value in {**fields, "sig": signed}.items())


def sas_fields(token: str) -> Dict[str, str]:
    """The fields of a SAS, decoded."""
    return dict(parse_qsl(token, keep_blank_values=True))


def bare_token(text: str) -> str:
    """The token out of a SAS as people keep it: with a `?`, within a URL, with blanks around it."""
    text = text.strip()
    token = text.partition("?")[2] if "?" in text else text
    # A token that was encoded once too often has no `&` left.
    return unquote(token) if "&" not in token and "%26" in token else token


def signature(key: bytes, lines: list[str]) -> str:
    """HMAC-SHA256 of the lines, in base64."""
    return base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), "sha256")).decode()


def utc(seconds: float) -> str:
    """The time as a SAS writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def http_now(last: List[Tuple[int, str]] = [(0, "")]) -> str:  # noqa: B006
    """The time as HTTP writes it, whatever the locale. It is the same for many requests."""
    seconds = int(time.time())
    known, text = last[0]
    if known != seconds:
        now = time.gmtime(seconds)
        clock = time.strftime("%H:%M:%S", now)
        text = f"{_DAYS[now.tm_wday]}, {now.tm_mday:02d} {_MONTHS[now.tm_mon - 1]} {now.tm_year} {clock} GMT"
        last[0] = (seconds, text)
    return text
