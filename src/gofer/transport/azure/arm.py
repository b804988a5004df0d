"""A small client of Azure Resource Manager and of related services, on azure-core's pipeline.

Takes and returns plain JSON. Requests are retried after temporary failures, so every request must be one that
may be sent twice.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from gofer._version import __version__
from gofer.core.json_text import parse_json
from gofer.errors import Unreachable
from gofer.objects.retry_policy import retry_after_s
from gofer.transport.activity import activity
from gofer.transport.azure.cloud import Cloud
from gofer.transport.azure.credential import AzureCredential
from gofer.transport.azure.problems import (
    ResourceNotFound,
    from_answer,
    innermost,
    not_installed,
    one_line,
)

if TYPE_CHECKING:
    from azure.core.pipeline import Pipeline

Json = dict[str, Any]
LOGGER = "gofer.azure"
_MOST_PAGES = 1000


class ServicePatience(NamedTuple):
    """How long to wait for a service: the number of retries, the pauses between them, the longest
    Retry-After.
    """

    tries: int = 5
    first_s: float = 0.4
    most_s: float = 20.0
    longest_after_s: float = 60.0
    silence_s: float = 60.0


class AcceptedChange(NamedTuple):
    """The answer to a change that may take long. `operation` is the URL of its state; empty when the change
    is complete. `is_new` says that the service made a resource.
    """

    document: Json
    operation: str
    retry_after_s: float
    is_new: bool


class OperationState(NamedTuple):
    """What the service says of a long operation. `status` is InProgress, Succeeded, Failed or Canceled."""

    status: str
    code: str = ""
    message: str = ""
    retry_after_s: float = 0.0


class Arm:
    """A client for one cloud with one credential.

    Connects on the first call; any thread may call. Blocking.
    """

    def __init__(
        self, cloud: Cloud, credential: AzureCredential, *, patience: ServicePatience | None = None
    ) -> None:
        self.cloud = cloud
        self.credential = credential
        self._patience = patience or ServicePatience()
        self._pipeline: Pipeline[Any, Any] | None = None
        self._transport: Any = None
        self._lock = threading.Lock()

    def get(self, path: str, api: str = "", **query: str) -> Json:
        """The resource; ResourceNotFound when there is none. `path` is a path of ARM, or a complete URL."""
        return self._call("GET", self._url(path, api, query))

    def find(self, path: str, api: str = "", **query: str) -> Json | None:
        """As `get`, but None when there is no such resource."""
        try:
            return self.get(path, api, **query)
        except ResourceNotFound:
            return None

    def put(
        self,
        path: str,
        api: str,
        body: Mapping[str, object],
        *,
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> Json:
        """Create or change a resource. RequestRejected when the service refuses."""
        return self._call("PUT", self._url(path, api, query), body, headers)

    def post(self, path: str, api: str = "", body: Mapping[str, object] | None = None, **query: str) -> Json:
        """Run an action that may be run twice; return its answer."""
        return self._call("POST", self._url(path, api, query), body)

    def change(
        self,
        method: str,
        path: str,
        api: str,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AcceptedChange:
        """Ask for a change that may take long, by PUT, POST or DELETE, and return at once.

        RequestRejected when the service refuses; its `status` is 409 while another change is in progress, and
        412 when the condition in `headers` does not hold.
        """
        answer, document = self._answer(method, self._url(path, api, {}), body, headers)
        operation = answer.headers.get("azure-asyncoperation") or ""
        if not operation and answer.status_code == 202:
            operation = answer.headers.get("location") or ""
        return AcceptedChange(
            document, operation, _seconds(answer.headers.get("retry-after")), answer.status_code == 201
        )

    def operation(self, url: str) -> OperationState:
        """The state of a long operation by the URL that `change` returned. Succeeded for one that the service
        has forgotten: the caller then reads the resource.
        """
        # The request carries the token, so it goes to no other host.
        if urlsplit(url)[:2] != urlsplit(self.cloud.arm)[:2]:
            raise Unreachable(f"the operation {urlsplit(url).path} is on another host than {self.cloud.arm}")
        try:
            answer, document = self._answer("GET", url)
        except ResourceNotFound:
            return OperationState("Succeeded")
        after_s = _seconds(answer.headers.get("retry-after"))
        # A state by `Location` has no body: 202 means that the operation is in progress.
        status = str(document.get("status") or ("InProgress" if answer.status_code == 202 else "Succeeded"))
        found = document.get("error")
        error: Json = found if isinstance(found, dict) else {}
        return OperationState(status, innermost(error), one_line(error.get("message") or ""), after_s)

    def pages(self, path: str, api: str = "", *, method: str = "GET", **query: str) -> Iterator[list[Json]]:
        """The pages of a listing. A page is fetched only when the caller asks for it."""
        url = self._url(path, api, query)
        for _ in range(_MOST_PAGES):
            answer = self._call(method, url)
            rows = answer.get("value") if "value" in answer else answer.get("nodes")
            if not isinstance(rows, list):
                raise Unreachable(f"{_named(method, url)}: the answer is not a listing")
            yield rows
            following = answer.get("nextLink")
            if not following:
                return
            # Do not follow: the request to another host would carry the token.
            if urlsplit(following)[:2] != urlsplit(url)[:2]:
                raise Unreachable(f"{_named(method, url)}: the listing continues on another host")
            url = following

    # -- private

    def _url(self, path: str, api: str, query: Mapping[str, str]) -> str:
        base = path if "://" in path else self.cloud.arm + quote(path, safe="/:$-_.~()")
        words = {**({"api-version": api} if api else {}), **query}
        return f"{base}?{urlencode(words, quote_via=quote, safe='$')}" if words else base

    def _call(
        self,
        method: str,
        url: str,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        return self._answer(method, url, body, headers)[1]

    def _answer(
        self,
        method: str,
        url: str,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Any, Json]:
        answer = self._send(method, url, body, headers)
        if answer.status_code == 401:
            # The token may have been revoked, or this machine's clock may have been wrong: try once with a
            # new token.
            self.credential.forget(self.cloud.scope)
            with self._lock:
                self._pipeline = None
            answer = self._send(method, url, body, headers)
        data = answer.body()
        if answer.status_code >= 300:
            what, profile = _named(method, url), self.credential.profile
            raise from_answer(what, answer.status_code, answer.headers, data, profile)
        # Some requests, such as a cancel, are answered without a body.
        if not data.strip():
            return answer, {}
        try:
            found = parse_json(data)
        except ValueError:
            raise Unreachable(f"{_named(method, url)}: the answer is incomplete, or not JSON") from None
        return answer, found if isinstance(found, dict) else {"value": found}

    def _send(
        self, method: str, url: str, body: Mapping[str, object] | None, headers: Mapping[str, str] | None
    ) -> Any:
        pipeline = self._ready()
        from azure.core.exceptions import AzureError
        from azure.core.pipeline.transport import HttpRequest

        request = HttpRequest(method, url, headers={"Accept": "application/json", **(headers or {})})
        if body is not None:
            request.headers["Content-Type"] = "application/json"
            request.data = json.dumps(body)
        try:
            with activity(f"waiting for Azure: {_named(method, url)}"):
                return pipeline.run(request, retry_on_methods=_ALL_METHODS).http_response
        except AzureError as error:
            words = str(error.message or type(error).__name__)
            raise Unreachable(
                f"Azure cannot be reached now: {_named(method, url)}: {words}",
                hint="check the network, or try again later",
            ) from error

    def _ready(self) -> Pipeline[Any, Any]:
        with self._lock:
            if self._pipeline is None:
                self._pipeline = self._make()
            return self._pipeline

    def _make(self) -> Pipeline[Any, Any]:
        try:
            from gofer.transport.azure.pipeline import make
        except ImportError:
            raise not_installed("Azure ML") from None
        self._pipeline, self._transport = make(
            self.credential,
            self.cloud.scope,
            self._patience,
            transport=self._transport,
            agent=f"gofer/{__version__}",
            logger=_logger(),
        )
        return self._pipeline


def _logger() -> logging.Logger:
    """Logs every request without its secrets: on stderr with GOFER_DEBUG, or where a program that uses gofer
    sets the logger `gofer` to INFO.
    """
    logger = logging.getLogger(LOGGER)
    if os.environ.get("GOFER_DEBUG", "0") not in ("", "0"):
        logger.setLevel(logging.INFO)
        if not logger.hasHandlers():
            logger.addHandler(logging.StreamHandler())
    return logger


_ALL_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


def _seconds(header: str | None) -> float:
    return retry_after_s({"retry-after": header or ""}) or 0.0


def _named(method: str, url: str) -> str:
    """The request for messages: without host and query, and shortened to the part after the workspace."""
    path = urlsplit(url).path
    for mark in ("/workspaces/", "/providers/Microsoft.MachineLearningServices/", "/providers/"):
        if mark in path:
            return f"{method} {path.rpartition(mark)[2]}"
    return f"{method} {path or '/'}"
