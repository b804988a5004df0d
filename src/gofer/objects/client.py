"""Signs and sends requests, and retries them after temporary failures. Shared by the services."""

from __future__ import annotations

import re
import socket
import sys
import time
from types import MappingProxyType
from typing import Callable, Dict, Mapping, NamedTuple, NoReturn, Optional, Tuple, TypeVar

from gofer.objects.facts import Exists, ObjectNotFound, ObjectsError, VersionMismatch
from gofer.objects.link import Bytes, StaleConnection
from gofer.objects.names import in_query
from gofer.objects.retry_policy import Policy, Transient, is_worth_it, retry_after_s, retry_request
from gofer.objects.wire import SILENCE_TIMEOUT_S, HttpResponse, Tls, Wire

T = TypeVar("T")

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)")
_DETAIL = re.compile(r"<(?:AuthenticationErrorDetail|Region)>([^<]*)")
# S3 answers so when two writers meet; a retry succeeds.
_PASSING = ("ConditionalRequestConflict", "OperationAborted")
# Fewer tries for a server that has never answered: its name is more likely wrong than the server busy.
_TRIES_UNHEARD = 3


class HttpRequest(NamedTuple):
    """A request before it is signed. `path` is encoded, `query` is not; statuses in `fine` are not errors."""

    method: str
    path: str
    query: Mapping[str, str] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    body: Optional[Bytes] = None
    fine: Tuple[int, ...] = ()

    @property
    def target(self) -> str:
        """Path and query as sent."""
        return self.path + query_text(self.query)


class Signer:
    """A credential. `sign` returns the target and the headers to send; any thread may call it."""

    # Distinguishes credentials without revealing them; empty where the credential is fetched when needed.
    mark = ""

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        raise NotImplementedError

    def renew(self) -> bool:
        """Get a new credential after the service has refused this one; False when there is none."""
        return False


class Client:
    """A client for one address. Blocking; any thread may call."""

    def __init__(
        self,
        url: str,
        signer: Signer,
        *,
        policy: Optional[Policy] = None,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
        tls: Optional[Callable[[], Tls]] = None,
        proxy_url: str = "",
        every_head: Tuple[Tuple[str, str], ...] = (),
    ) -> None:
        """`tls`, `proxy_url` and `every_head` are those of Wire."""
        self._wire = Wire(
            url, silence_timeout_s=silence_timeout_s, tls=tls, proxy_url=proxy_url, every_head=every_head
        )
        self.signer = signer
        self._policy = policy or Policy()
        self._heard: Optional[Tuple[HttpResponse, float]] = None

    @property
    def is_guarded(self) -> bool:
        """Whether bytes cannot change on the way: the connection uses TLS, or stays on this machine."""
        return self._wire.is_guarded

    @property
    def clock_ahead_s(self) -> Optional[float]:
        """How far the service's clock is ahead of ours, by its last answer; None before the first."""
        if self._heard is None:
            return None
        from email.utils import parsedate_to_datetime

        answer, heard = self._heard
        try:
            return parsedate_to_datetime(answer.headers.get("date", "")).timestamp() - heard
        except (TypeError, ValueError):
            return None

    def call(
        self, request: HttpRequest, read: Callable[[HttpResponse], T], *, policy: Optional[Policy] = None
    ) -> T:
        """Send the request and return what `read` makes of the answer. Blocking.

        `read` may be called several times, each time with a new answer. A SyntaxError or ValueError of `read`
        means that the answer does not come from the service. `policy` replaces the client's policy for this
        request.

        Raises ObjectsError, or ObjectNotFound, Exists and VersionMismatch for the answers 404, 409 and 412.
        """
        return retry_request(policy or self._policy, lambda tried: self._try(request, read, tried))

    def close(self) -> None:
        self._wire.close()

    def _try(self, request: HttpRequest, read: Callable[[HttpResponse], T], tried: int) -> T:
        try:
            target, headers = self.signer.sign(request)
            answer = self._wire.send(request.method, target, headers, request.body)
            self._heard = (answer, time.time())
            if answer.status < 300 or answer.status in request.fine:
                return _understood(answer, read)
            error = _problem(answer, request.method)
        except StaleConnection:
            # All connections that were idle for as long are probably closed too.
            self._wire.close()
            raise Transient(ObjectsError(0, "connection", "the connection was lost"), at_once=True) from None
        except OSError as failure:
            self._unreachable(failure, tried)
        except ObjectsError as found:  # an error in the body of an answer with status 200
            error = found
        if is_worth_it(error.status) or error.code in _PASSING:
            raise Transient(error, retry_after_s(answer.headers))
        # A token can be revoked before its end; a second 401 in a row has another cause.
        if error.status == 401 and tried == 0 and self.signer.renew():
            raise Transient(error, at_once=True)
        raise error

    def _unreachable(self, failure: OSError, tried: int) -> NoReturn:
        error = _network_error(failure)
        is_sure = self._policy.is_sure or self._heard is not None
        may_pass = error.code != "tls" and (error.code != "name" or self._policy.is_sure)
        if may_pass and (is_sure or tried + 1 < _TRIES_UNHEARD):
            raise Transient(error) from None
        raise error from None


def _understood(answer: HttpResponse, read: Callable[[HttpResponse], T]) -> T:
    """What `read` returns; ObjectsError for an answer that `read` cannot parse.

    A proxy, or the login page of a network, may answer 200 to every request.
    """
    try:
        return read(answer)
    except (SyntaxError, ValueError):  # SyntaxError: ElementTree's ParseError
        words = "the answer does not come from the service; is a proxy or a login page in between?"
        raise ObjectsError(answer.status, "answer", words) from None


def query_text(query: Mapping[str, str]) -> str:
    """`?a=1&b` with encoded values; empty without a query."""
    if not query:
        return ""
    return "?" + "&".join([f"{name}={in_query(value)}" if value else name for name, value in query.items()])


def _problem(answer: HttpResponse, method: str) -> ObjectsError:
    """The error in an answer. Omits the message of a 401 or 403, which may repeat what was signed."""
    if answer.status == 404 and method == "HEAD" and "x-ms-error-code" not in answer.headers:
        answer.read()
        return ObjectNotFound(404, "", "there is no such object")
    text = answer.read().decode("utf-8", "replace")
    code = answer.headers.get("x-ms-error-code") or _first(_CODE, text)
    message = _first(_MESSAGE, text).split("\n")[0].strip().rstrip(".")
    words = f"the service answered {answer.status}{f' {code}' if code else ''}"
    if message and answer.status not in (401, 403):
        words += f": {message[:1].lower()}{message[1:200]}"
    return _KINDS.get((answer.status, code), ObjectsError)(
        answer.status, code, words, _first(_DETAIL, text).split("\n")[0][:300]
    )


_KINDS = {
    (404, "BlobNotFound"): ObjectNotFound,
    (404, "NoSuchKey"): ObjectNotFound,
    (409, "BlobAlreadyExists"): Exists,
    (412, "ConditionNotMet"): VersionMismatch,
    (412, "PreconditionFailed"): VersionMismatch,
}


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None or "&" not in found[1]:
        return found[1] if found else ""
    from html import unescape

    return unescape(found[1])


def _network_error(failure: OSError) -> ObjectsError:
    broken = _tls_error(failure) if "ssl" in sys.modules else None
    if broken:
        return broken
    if isinstance(failure, socket.gaierror):
        return ObjectsError(0, "name", "its host name is unknown")
    if isinstance(failure, (socket.timeout, TimeoutError, BlockingIOError)):
        return ObjectsError(0, "timeout", "the service does not answer")
    reason = failure.strerror or str(failure) or "the connection was lost"
    return ObjectsError(0, "connection", reason.lower())


def _tls_error(failure: OSError) -> Optional[ObjectsError]:
    import ssl  # slow to load, and not needed for a service without TLS

    if isinstance(failure, ssl.SSLCertVerificationError):
        return ObjectsError(0, "tls", f"its certificate is not trusted: {failure.verify_message}")
    if isinstance(failure, ssl.SSLError) and not isinstance(failure, (socket.timeout, TimeoutError)):
        return ObjectsError(0, "connection", "the TLS connection was lost")
    return None
