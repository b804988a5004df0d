"""A thin client of Azure Resource Manager, and of the services beside it, on azure-core's pipeline.

Plain JSON in and out. Requests are retried where that may help; all of gofer's may be made twice.
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
from gofer.transport.azure.cloud import Cloud
from gofer.transport.azure.credential import AzureCredential, not_installed
from gofer.transport.azure.problems import ResourceNotFound, from_answer

if TYPE_CHECKING:
    from azure.core.pipeline import Pipeline

Json = dict[str, Any]
LOGGER = "gofer.azure"
_MOST_PAGES = 1000


class Patience(NamedTuple):
    """How long a service is waited for: tries after the first, waits in between, the longest Retry-After."""

    tries: int = 5
    first_s: float = 0.4
    most_s: float = 20.0
    longest_after_s: float = 60.0
    silence_s: float = 60.0


class Arm:
    """One cloud, asked by one credential. Asks nobody before the first call; any thread may call."""

    def __init__(
        self, cloud: Cloud, credential: AzureCredential, *, patience: Patience | None = None
    ) -> None:
        self.cloud = cloud
        self.credential = credential
        self._patience = patience or Patience()
        self._pipeline: Pipeline[Any, Any] | None = None
        self._transport: Any = None
        self._lock = threading.Lock()

    def get(self, path: str, api: str = "", **query: str) -> Json:
        """The resource; ResourceNotFound when there is none. `path` is one of ARM, or a whole address."""
        return self._call("GET", self._url(path, api, query))

    def find(self, path: str, api: str = "", **query: str) -> Json | None:
        """As `get`; None when there is none."""
        try:
            return self.get(path, api, **query)
        except ResourceNotFound:
            return None

    def put(
        self,
        path: str,
        api: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> Json:
        """Make or change. Rejected when the service will not have it."""
        return self._call("PUT", self._url(path, api, query), body, headers)

    def post(self, path: str, api: str = "", body: Mapping[str, Any] | None = None, **query: str) -> Json:
        """Have something done that may be done twice."""
        return self._call("POST", self._url(path, api, query), body)

    def pages(self, path: str, api: str = "", *, method: str = "GET", **query: str) -> Iterator[list[Json]]:
        """The parts of a listing as they come; no more is asked for than is taken."""
        url = self._url(path, api, query)
        for _ in range(_MOST_PAGES):
            said = self._call(method, url)
            rows = said.get("value") if "value" in said else said.get("nodes")
            if not isinstance(rows, list):
                raise Unreachable(f"{_named(method, url)}: the answer is no listing")
            yield rows
            following = said.get("nextLink")
            if not following:
                return
            if urlsplit(following)[:2] != urlsplit(url)[:2]:
                raise Unreachable(f"{_named(method, url)}: the listing goes on at another address")
            url = following

    # -- within

    def _url(self, path: str, api: str, query: Mapping[str, str]) -> str:
        base = path if "://" in path else self.cloud.arm + quote(path, safe="/:$-_.~()")
        words = {**({"api-version": api} if api else {}), **query}
        return f"{base}?{urlencode(words, quote_via=quote, safe='$')}" if words else base

    def _call(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        answer = self._send(method, url, body, headers)
        if answer.status_code == 401:
            # It may have been revoked, or be that of a clock that was wrong: once more with a new one.
            self.credential.forget(self.cloud.scope)
            with self._lock:
                self._pipeline = None
            answer = self._send(method, url, body, headers)
        data = answer.body()
        if answer.status_code >= 300:
            what, profile = _named(method, url), self.credential.profile
            raise from_answer(what, answer.status_code, answer.headers, data, profile)
        if not data.strip():
            return {}
        try:
            found = parse_json(data)
        except ValueError:
            raise Unreachable(f"{_named(method, url)}: the answer is cut short, or no JSON") from None
        return found if isinstance(found, dict) else {"value": found}

    def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> Any:
        pipeline = self._ready()
        from azure.core.exceptions import AzureError
        from azure.core.pipeline.transport import HttpRequest

        request = HttpRequest(method, url, headers={"Accept": "application/json", **(headers or {})})
        if body is not None:
            request.headers["Content-Type"] = "application/json"
            request.data = json.dumps(body)
        try:
            return pipeline.run(request, retry_on_methods=_ALL_METHODS).http_response
        except AzureError as error:
            words = str(error.message or type(error).__name__)
            raise Unreachable(
                f"Azure cannot be asked now: {_named(method, url)}: {words}",
                hint="is there a network? try again later",
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
    """Every request is told on stderr, what is private in it left out, with GOFER_DEBUG, and where whoever
    uses gofer has `gofer` logged at INFO.
    """
    logger = logging.getLogger(LOGGER)
    if os.environ.get("GOFER_DEBUG", "0") not in ("", "0"):
        logger.setLevel(logging.INFO)
        if not logger.hasHandlers():
            logger.addHandler(logging.StreamHandler())
    return logger


_ALL_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


def _named(method: str, url: str) -> str:
    """The request for people: without its host and query, and from the workspace on."""
    path = urlsplit(url).path
    for mark in ("/workspaces/", "/providers/Microsoft.MachineLearningServices/", "/providers/"):
        if mark in path:
            return f"{method} {path.rpartition(mark)[2]}"
    return f"{method} {path or '/'}"
