"""The pipeline of azure-core for requests, and its HTTP transport over the connections of the object stores.

Imported with the first request, because azure-core is slow. Its own transport would import `requests`,
which takes longer than most commands of gofer.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline import Pipeline
from azure.core.pipeline.policies import (
    BearerTokenCredentialPolicy,
    HttpLoggingPolicy,
    RedirectPolicy,
    RequestIdPolicy,
    RetryPolicy,
    SensitiveHeaderCleanupPolicy,
    UserAgentPolicy,
)
from azure.core.pipeline.transport import HttpRequest, HttpResponse, HttpTransport

from gofer.errors import Unreachable
from gofer.objects.link import StaleConnection
from gofer.objects.retry_policy import retry_after_s
from gofer.objects.wire import Wire

if TYPE_CHECKING:
    from gofer.transport.azure.arm import ServicePatience
    from gofer.transport.azure.credential import AzureCredential


_SECRET_HEADERS = ["Authorization", "x-ms-authorization-auxiliary", "x-azureml-token"]
SILENCE_TIMEOUT_S = 60.0


class _Retry(RetryPolicy[Any, Any]):
    """azure-core's policy, except that a service that asks for a very long pause is not retried."""

    def __init__(self, patience: ServicePatience) -> None:
        super().__init__(
            retry_total=patience.tries,
            retry_connect=min(patience.tries, 3),
            retry_read=patience.tries,
            retry_status=patience.tries,
            retry_backoff_factor=patience.first_s,
            retry_backoff_max=patience.most_s,
        )
        self._longest_after_s = patience.longest_after_s

    def is_retry(self, settings: Any, response: Any) -> bool:
        after_s = retry_after_s({"retry-after": response.http_response.headers.get("retry-after") or ""})
        if after_s is not None and after_s > self._longest_after_s:
            return False
        return bool(super().is_retry(settings, response))


def make(
    credential: AzureCredential,
    scope: str,
    patience: ServicePatience,
    *,
    transport: WireTransport | None,
    agent: str,
    logger: logging.Logger,
) -> tuple[Pipeline[Any, Any], WireTransport]:
    """A new pipeline that uses the given connections, or new ones."""
    sender = transport or WireTransport(silence_timeout_s=patience.silence_s)
    policies: list[Any] = [
        RequestIdPolicy(),
        UserAgentPolicy(base_user_agent=agent),
        RedirectPolicy(redirect_max=5),
        _Retry(patience),
        BearerTokenCredentialPolicy(credential, scope),
        # After the bearer policy: this policy removes the token when a redirect leads to another host.
        SensitiveHeaderCleanupPolicy(blocked_redirect_headers=_SECRET_HEADERS),
    ]
    if logger.isEnabledFor(logging.INFO):
        policies.append(HttpLoggingPolicy(logger))
    return Pipeline(sender, policies), sender


class WireResponse(HttpResponse):
    """An answer whose body has been read completely."""

    def __init__(self, request: HttpRequest, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(request, None)
        self.status_code = status
        self.headers = _Headers(headers)
        self.reason = ""
        self.content_type = self.headers.get("content-type")
        self._body = body

    def body(self) -> bytes:
        return self._body


class _Headers(dict[str, str]):
    """Headers by lower-case name; lookups ignore case, as azure-core expects."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return super().__contains__(str(name).lower())


class WireTransport(HttpTransport[HttpRequest, HttpResponse]):
    """Keeps connections open to all servers in use. Any thread may send; calls block."""

    def __init__(self, *, silence_timeout_s: float = SILENCE_TIMEOUT_S) -> None:
        self._silence_timeout_s = silence_timeout_s
        self._wires: dict[str, Wire] = {}
        self._lock = threading.Lock()

    def send(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Send a request. Raises the errors that azure-core retries: ServiceRequestError when the server was
        not reached, ServiceResponseError when its answer was lost. Raises Unreachable for problems that a
        retry cannot solve: an unknown host name or a certificate that is not trusted.
        """
        parts = urlsplit(request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        body: Any = request.body
        data: bytes | None = body.encode() if isinstance(body, str) else body
        wire = self._wire(f"{parts.scheme}://{parts.netloc}")
        headers = {name: str(value) for name, value in request.headers.items()}
        # The wire sets this header itself.
        headers.pop("Content-Length", None)
        if data is None and request.method in ("PUT", "POST"):
            # Servers expect a Content-Length with these methods, also for an empty body.
            data = b""
        return self._send(wire, request, target, headers, data)

    def _send(
        self, wire: Wire, request: HttpRequest, target: str, headers: dict[str, str], data: bytes | None
    ) -> HttpResponse:
        # A stale connection is tried again once, since the server has not seen the request.
        for _ in range(2):
            try:
                answer = wire.send(request.method, target, headers, data)
                return WireResponse(request, answer.status, answer.headers, answer.read())
            except StaleConnection:
                # The server closed idle connections and has not seen the request; the other idle ones are
                # closed too.
                wire.close()
            except OSError as error:
                raise _explained(error, wire.server.host_header) from error
        raise ServiceRequestError(f"{wire.server.host_header} closes every connection")

    def _wire(self, base: str) -> Wire:
        with self._lock:
            if base not in self._wires:
                self._wires[base] = Wire(base, silence_timeout_s=self._silence_timeout_s)
            return self._wires[base]

    def open(self) -> None:
        """Nothing to do: connections are made when they are needed."""

    def close(self) -> None:
        with self._lock:
            for wire in self._wires.values():
                wire.close()

    def __enter__(self) -> WireTransport:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.close()


def _explained(error: OSError, host: str) -> Exception:
    import socket

    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(
            f"the certificate of {host} is not trusted: {error.verify_message}",
            hint="set `SSL_CERT_FILE` to a file of trusted authorities; is there a proxy in between?",
        )
    if isinstance(error, socket.gaierror):
        return Unreachable(f"the host {host} is unknown", hint="check the network and the VPN")
    if isinstance(error, ConnectionRefusedError) or "timed out" in str(error).lower():
        return ServiceRequestError(f"{host} does not answer")
    return ServiceResponseError(f"the connection to {host} was lost: {error}")
