"""Signatures for S3: AWS Signature Version 4."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from gofer.objects.client import HttpRequest, Signer
from gofer.objects.names import in_query

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_EMPTY = hashlib.sha256(b"").hexdigest()


class AccessKey(NamedTuple):
    """An access key; `token` belongs to temporary keys. Its repr hides the secret."""

    access_key: str
    secret_key: str
    token: Optional[str] = None

    def __repr__(self) -> str:
        return f"AccessKey({self.access_key!r})"


class SigV4(Signer):
    """Signs each request. The body is signed only without TLS; with TLS, its MD5 protects it."""

    def __init__(self, keys: AccessKey, region: str, host: str, *, is_secure: bool) -> None:
        self._keys = keys
        self._region = region
        self._host = host
        self._is_secure = is_secure
        self._day_key: Tuple[str, bytes] = ("", b"")

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        hashed = self._hash(request)
        headers = {**request.headers, "x-amz-date": moment, "x-amz-content-sha256": hashed}
        if self._keys.token:
            headers["x-amz-security-token"] = self._keys.token
        query = _canonical_query(request.query)
        # Every header is signed, so that none can be changed on the way.
        signed = {"host": self._host, **{name.lower(): value for name, value in headers.items()}}
        names = ";".join(sorted(signed))
        digest = self._digest(request.method, request.path, query, signed, names, hashed, moment)
        credential = f"{self._keys.access_key}/{self._scope(moment)}"
        headers["Authorization"] = (
            f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={digest}"
        )
        return f"{request.path}?{query}" if query else request.path, headers

    def presign(self, method: str, path: str, expires_s: int) -> str:
        """A path with a query that gives access to the object for a limited time."""
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        fields = {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self._keys.access_key}/{self._scope(moment)}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": "host",
        }
        if self._keys.token:
            fields["X-Amz-Security-Token"] = self._keys.token
        query = _canonical_query(fields)
        digest = self._digest(method, path, query, {"host": self._host}, "host", _UNSIGNED, moment)
        return f"{path}?{query}&X-Amz-Signature={digest}"

    def _hash(self, request: HttpRequest) -> str:
        if request.body is None or not len(request.body):
            return _EMPTY
        return _UNSIGNED if self._is_secure else hashlib.sha256(request.body).hexdigest()

    def _scope(self, moment: str) -> str:
        return f"{moment[:8]}/{self._region}/s3/aws4_request"

    def _digest(
        self,
        method: str,
        path: str,
        query: str,
        headers: Dict[str, str],
        names: str,
        hashed: str,
        moment: str,
    ) -> str:
        lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
        canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{hashed}"
        summary = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"{_ALGORITHM}\n{moment}\n{self._scope(moment)}\n{summary}"
        return hmac.new(self._signing_key(moment[:8]), text.encode(), "sha256").hexdigest()

    def _signing_key(self, day: str) -> bytes:
        known, key = self._day_key
        if known != day:
            key = b"AWS4" + self._keys.secret_key.encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.new(key, part.encode(), "sha256").digest()
            # Kept, because the key depends only on the day, and making it takes four hashes.
            self._day_key = (day, key)
        return key


def _canonical_query(query: Mapping[str, str]) -> str:
    pairs = sorted((in_query(name), in_query(value)) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
