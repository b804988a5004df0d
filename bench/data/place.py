"""A blob service on this machine as its clients see it, and the one way in that all of them understand."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import quote

from bench.errors import BenchError

ACCOUNT = "devstoreaccount1"
# The emulator's published key; it opens nothing else.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-12-02"
_DAY_S = 86_400


@dataclass(frozen=True)
class Service:
    """A server on loopback. `upload` is the container that takes what is sent, `download` the one that has
    it: the same on a real server, not on one that keeps nothing.
    """

    port: int
    upload: str
    download: str

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def url(self, container: str, path: str = "") -> str:
        """The address of a blob or folder with its SAS."""
        return f"{self.endpoint}/{container}{'/' if path else ''}{path}?{account_sas()}"


def make_container(service: Service, name: str) -> None:
    """BenchError when the server refuses."""
    url = f"{service.endpoint}/{name}?restype=container&{account_sas()}"
    request = urllib.request.Request(url, data=b"", method="PUT", headers={"x-ms-version": _VERSION})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except (OSError, urllib.error.URLError) as error:
        raise BenchError(f"the container `{name}` could not be made: {error}") from error


def account_sas() -> str:
    """A signature for everything in the account for a day."""
    now = time.time()
    starts, ends = (_utc(moment) for moment in (now - _DAY_S, now + _DAY_S))
    fields = {"sv": _VERSION, "ss": "b", "srt": "sco", "sp": "rwdlacup", "st": starts, "se": ends}
    order = (fields[name] for name in ("sp", "ss", "srt", "st", "se"))
    # After the times: addresses, protocol, version, encryption scope, and an empty last line.
    text = "\n".join([ACCOUNT, *order, "", "", _VERSION, "", ""])
    signed = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    fields["sig"] = base64.b64encode(signed).decode()
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
