"""Requests that are signed, sent, and sent again where that may help. Shared by the services."""

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
from gofer.objects.patience import Policy, Transient, is_worth_it, persist, retry_after_s
from gofer.objects.wire import SILENCE_TIMEOUT_S, HttpResponse, Wire

T = TypeVar("T")

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)")
_DETAIL = re.compile(r"<(?:AuthenticationErrorDetail|Region)>([^<]*)")
# Two writers met; S3 decides for one and asks the other to come again.
_PASSING = ("ConditionalRequestConflict", "OperationAborted")
# A server that was never heard from is more likely misspelt than busy.
_TRIES_UNHEARD = 3


class HttpRequest(NamedTuple):
    """One request, not signed yet. `path` is encoded, `query` is not; a status in `fine` is no error."""

    method: str
    path: str
    query: Mapping[str, str] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    body: Optional[Bytes] = None
    fine: Tuple[int, ...] = ()

    @property
    def target(self) -> str:
        """Path and query as they stand in the request."""
        return self.path + query_text(self.query)


class Signer:
    """What opens the service. `sign` returns the target and the headers to send; threads share it."""

    # Tells one secret from another without giving it away; empty where what signs is asked for anew.
    mark = ""

    def sign(self, request: HttpRequest) -> Tuple[str, Dict[str, str]]:
        raise NotImplementedError

    def renew(self) -> bool:
        """Get another credential, since the service did not take this one; False when there is none."""
        return False


class Client:
    """One service behind one address. Blocking; any thread may call."""

    def __init__(
        self,
        url: str,
        signer: Signer,
        *,
        policy: Optional[Policy] = None,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
    ) -> None:
        self._wire = Wire(url, silence_timeout_s=silence_timeout_s)
        self.signer = signer
        self._policy = policy or Policy()
        self._heard: Optional[Tuple[HttpResponse, float]] = None

    @property
    def is_guarded(self) -> bool:
        """Whether bytes cannot change on the way: it is encrypted, or does not leave the machine."""
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
        """What `read` makes of the answer; it may be asked several times, each time with a new answer.

        `policy` is for requests that there is another way for. A SyntaxError or ValueError of `read` means
        that the answer is not one of the service.

        ObjectsError, or ObjectNotFound, Exists and VersionMismatch for 404, 409 and 412 that say so.
        """
        return persist(policy or self._policy, lambda tried: self._try(request, read, tried))

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
            self._wire.close()  # the others that waited as long are no better
            raise Transient(ObjectsError(0, "connection", "the connection broke"), at_once=True) from None
        except OSError as failure:
            self._unreachable(failure, tried)
        except ObjectsError as found:  # in a body that began before the work was done
            error = found
        if is_worth_it(error.status) or error.code in _PASSING:
            raise Transient(error, retry_after_s(answer.headers))
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
    """What `read` makes of the answer; ObjectsError for an answer that `read` cannot parse.

    A proxy, or the login page of a network, answers 200 to everything.
    """
    try:
        return read(answer)
    except (SyntaxError, ValueError):  # SyntaxError: ElementTree's ParseError
        words = "the answer is not one of such a service; is a proxy or a login page in between?"
        raise ObjectsError(answer.status, "answer", words) from None


def query_text(query: Mapping[str, str]) -> str:
    """`?a=1&b` with its values encoded, or nothing."""
    if not query:
        return ""
    return "?" + "&".join([f"{name}={in_query(value)}" if value else name for name, value in query.items()])


def _problem(answer: HttpResponse, method: str) -> ObjectsError:
    """The error in an answer. A 403 keeps the service's message to itself: it may repeat what was signed."""
    if answer.status == 404 and method == "HEAD" and "x-ms-error-code" not in answer.headers:
        answer.read()
        return ObjectNotFound(404, "", "there is no such object")
    text = answer.read().decode("utf-8", "replace")
    code = answer.headers.get("x-ms-error-code") or _first(_CODE, text)
    message = _first(_MESSAGE, text).split("\n")[0].strip().rstrip(".")
    words = f"the service answers {answer.status}{f' {code}' if code else ''}"
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
        return ObjectsError(0, "name", "no address is known for its host")
    if isinstance(failure, (socket.timeout, TimeoutError, BlockingIOError)):
        return ObjectsError(0, "timeout", "the service does not answer")
    reason = failure.strerror or str(failure) or "the connection broke"
    return ObjectsError(0, "connection", reason.lower())


def _tls_error(failure: OSError) -> Optional[ObjectsError]:
    import ssl  # takes its time, and a service without TLS does not need it

    if isinstance(failure, ssl.SSLCertVerificationError):
        return ObjectsError(0, "tls", f"its certificate is not trusted: {failure.verify_message}")
    if isinstance(failure, ssl.SSLError) and not isinstance(failure, (socket.timeout, TimeoutError)):
        return ObjectsError(0, "connection", "the TLS connection broke")
    return None
