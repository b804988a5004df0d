"""A client of the Kubernetes API: JSON objects by path, watches, and logs of pods.

The official clients take 0.16 to 0.30 s of CPU to load, longer than a whole command of gofer; gofer needs ten
addresses, all of them JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gofer.core.retry import backoff, retry
from gofer.errors import BackendError, CredentialError, Unreachable
from gofer.objects.client import Client, HttpRequest
from gofer.objects.facts import ObjectsError
from gofer.objects.link import Cut
from gofer.objects.retry_policy import Policy
from gofer.transport.kubernetes.credentials import KubeSigner

if TYPE_CHECKING:
    from gofer.objects.wire import HttpResponse
    from gofer.transport.kubernetes.kubeconfig import KubeContext

T = TypeVar("T")

_POLICY = Policy(tries=6, first_s=0.2, most_s=5.0, patience_s=30.0)
# Answers that this module reads itself. 401 is left out: the credential is renewed. 429 and 5xx are retried.
_EXPLAINED = (*(status for status in range(400, 500) if status not in (401, 408, 429)), 501, 505)
_CONFLICT_S, _CONFLICT_TRIES = 0.1, 7
_WATCH_S = 50
_PAGE = "500"
_SILENCE_S = 24 * 3600.0
_NOTHING: Mapping[str, str] = MappingProxyType({})


class KubeApiError(BackendError):
    """The API server refused a request. `reason` is its word, such as NotFound or AlreadyExists."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        is_right = status == 403 and " cannot " in message
        hint = "`gofer doctor kubernetes` prints the Role that is missing" if is_right else None
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason


class WriteConflict(KubeApiError):
    """Another request changed something at the same time, such as the count of a quota. Nothing was done."""


class WatchEvent(NamedTuple):
    """A change: ADDED, MODIFIED, DELETED or BOOKMARK, and the object after it."""

    change: str
    object: dict[str, Any]

    @property
    def version(self) -> str:
        """The version to watch from after this event."""
        return str(self.object.get("metadata", {}).get("resourceVersion", ""))


class KubeClient:
    """A client for one context. Methods block; any thread may call.

    Paths begin with /api or /apis. Raises KubeApiError when the server refuses, Unreachable when it does not
    answer, CredentialError when it does not accept the credential. A request is tried again when its answer
    was lost, and a write when another one came between: a caller that creates an object under a name of its
    own takes AlreadyExists for success.
    """

    def __init__(self, context: KubeContext, *, kept: Path | None = None) -> None:
        """`kept` is the folder for credentials of programs that the kubeconfig names."""
        self.context = context
        self._kept = kept
        self._client = self._connect(60.0)
        self._streams: Client | None = None

    def get(self, path: str, query: Mapping[str, str] = _NOTHING, *, accept: str = "") -> dict[str, Any]:
        """An object or a list. `accept` asks for another form, such as a table."""
        headers = {"Accept": accept} if accept else {}
        return self._call(HttpRequest("GET", path, query, {**_JSON, **headers}, fine=_EXPLAINED))

    def list_all(self, path: str, selector: str = "", *, fields: str = "") -> Iterator[dict[str, Any]]:
        """All objects of the collection at `path` whose labels and fields match, by pages of one consistent
        list.
        """
        chosen = {"labelSelector": selector, "fieldSelector": fields}
        query = {"limit": _PAGE, **{name: value for name, value in chosen.items() if value}}
        while True:
            page = self.get(path, query)
            yield from page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = str(token)

    def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object in the collection at `path`. With `dry_run`, check it only."""
        query = {"fieldManager": "gofer", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        return self._send("POST", path, body, query, "application/json")

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `body` into the object at `path`: null removes a key."""
        return self._send("PATCH", path, body, {"fieldManager": "gofer"}, "application/merge-patch+json")

    def delete(self, path: str, *, propagation: str = "Background", grace_s: int | None = None) -> bool:
        """Delete the object at `path`; False when it does not exist."""
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self._send("DELETE", path, options, {}, "application/json")
        except KubeApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def delete_all(self, path: str, selector: str, *, grace_s: int | None = None) -> None:
        """Delete the objects of the collection at `path` whose labels match. Idempotent."""
        options: dict[str, Any] = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self._send("DELETE", path, options, {"labelSelector": selector}, "application/json")

    def watch(self, path: str, version: str, query: Mapping[str, str] = _NOTHING) -> Iterator[WatchEvent]:
        """The changes of a collection after `version`, until the server ends the watch, within a minute.

        For the next watch, the caller passes the version of the last event. KubeApiError with status 410:
        the version is too old, and the collection must be listed again.
        """
        asked = {
            **query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_S),
        }
        for line in _lines(self._stream(path, asked)):
            event = json.loads(line)
            found = event.get("object") or {}
            if event.get("type") == "ERROR":
                raise refusal(int(found.get("code") or 500), found)
            yield WatchEvent(str(event.get("type")), found)

    def log(self, namespace: str, pod: str, query: Mapping[str, str] = _NOTHING) -> Iterator[bytes]:
        """The log of a pod in pieces; with `follow` in the query, until its container ends."""
        return self._stream(f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._client.close()
        if self._streams is not None:
            self._streams.close()

    def _connect(self, silence_timeout_s: float) -> Client:
        cluster = self.context.cluster
        signer = KubeSigner(self.context, self._kept)
        return Client(
            cluster.server,
            signer,
            policy=_POLICY,
            silence_timeout_s=silence_timeout_s,
            tls=signer.tls,
            proxy_url=cluster.proxy_url,
            every_head=self.context.user.impersonation,
        )

    def _send(
        self, method: str, path: str, body: Mapping[str, Any], query: Mapping[str, str], kind: str
    ) -> dict[str, Any]:
        data = json.dumps(body, separators=(",", ":")).encode()
        headers = {**_JSON, "Content-Type": kind}
        request = HttpRequest(method, path, query, headers, data, fine=_EXPLAINED)
        pauses = backoff(_CONFLICT_S, tries=_CONFLICT_TRIES)
        return retry(lambda: self._call(request), errors=WriteConflict, pause_s=pauses)

    def _call(self, request: HttpRequest) -> dict[str, Any]:
        status, document = self._ask(self._client, request, _document)
        if status >= 300:
            raise refusal(status, document)
        return document

    def _stream(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """The pieces of an answer. Its connection may be silent for hours; it closes with the iterator."""
        if self._streams is None:
            self._streams = self._connect(_SILENCE_S)
        answer = self._ask(self._streams, HttpRequest("GET", path, query, _JSON, fine=_EXPLAINED), _as_it_is)
        if answer.status >= 300:
            raise refusal(*_document(answer))
        try:
            yield from answer.pieces()
        except OSError as error:
            raise Unreachable(f"the connection to {self.context.cluster.server} was lost: {error}") from error
        finally:
            answer.close()

    def _ask(self, client: Client, request: HttpRequest, read: Callable[[HttpResponse], T]) -> T:
        target = request._replace(path=_prefix(self.context.cluster.server) + request.path)
        try:
            return client.call(target, read)
        except ObjectsError as error:
            raise self._problem(error) from error

    def _problem(self, error: ObjectsError) -> Exception:
        server = self.context.cluster.server
        if error.status == 401:
            return CredentialError(
                f"{server} does not accept the credential of the context `{self.context.name}`",
                hint=f"`kubectl --context {self.context.name} get namespaces` should work",
            )
        return Unreachable(
            f"the Kubernetes cluster at {server} cannot be reached: {error}",
            hint="check its address, your network and `proxy-url`: `kubectl cluster-info`",
        )


_JSON: Mapping[str, str] = MappingProxyType({"Accept": "application/json", "User-Agent": "gofer"})


def _as_it_is(answer: HttpResponse) -> HttpResponse:
    return answer


def _document(answer: HttpResponse) -> tuple[int, dict[str, Any]]:
    data = answer.read()
    try:
        document = json.loads(data)
    except ValueError:
        if answer.status < 300:
            raise
        document = {"message": data.decode("utf-8", "replace").strip()[:300]}
    return answer.status, document if isinstance(document, dict) else {}


def refusal(status: int, document: Mapping[str, Any]) -> KubeApiError:
    """The error for an answer whose body is this document, a `Status` of Kubernetes."""
    message = str(document.get("message") or f"the API server answered {status}")
    reason = str(document.get("reason") or "")
    kind = WriteConflict if (status, reason) == (409, "Conflict") else KubeApiError
    return kind(status, reason, message)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        yield from lines
    if held:
        raise Cut("the watch ended within an event")


def _prefix(server: str) -> str:
    """The path of an address such as https://host/k8s/clusters/c1."""
    return "/" + server.split("/", 3)[3] if server.count("/") > 2 else ""
