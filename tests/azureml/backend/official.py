"""What the official SDK sends: azure-ai-ml, unchanged, over a transport that answers for the service."""

from __future__ import annotations

import base64
import json
import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from azure.ai.ml import MLClient
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import HttpTransport
from azure.core.rest._http_response_impl import HttpResponseImpl  # what the SDK's own transports return
from azure.core.utils import case_insensitive_dict
from azureml.backend.records import WORKSPACE

warnings.simplefilter("ignore")
logging.getLogger("azure").setLevel(logging.ERROR)
Sent = tuple[str, str, dict[str, Any]]


class _Answer(HttpResponseImpl):
    def __init__(self, request: Any, status: int, body: object) -> None:
        internal = type("Internal", (), {"status_code": status, "headers": {}, "reason": ""})()
        super().__init__(
            request=request,
            internal_response=internal,
            status_code=status,
            reason="",
            content_type="application/json",
            headers=case_insensitive_dict({"content-type": "application/json"}),
            stream_download_generator=None,
        )
        self._content = json.dumps(body).encode()
        self._is_closed = self._is_stream_consumed = True


class _Recorder(HttpTransport[Any, Any]):
    """Keeps what was sent; resources are as they were sent, and the workspace is there."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def send(self, request: Any, **_: Any) -> _Answer:
        path = request.url.partition("?")[0].removeprefix("https://management.azure.com")
        body = json.loads(request.content) if request.content else {}
        self.sent.append((request.method, path, body))
        if path == WORKSPACE:
            facts = {"discoveryUrl": "https://eastus.api.azureml.ms/discovery", "workspaceId": "1"}
            return _Answer(request, 200, {"id": path, "name": "w", "location": "eastus", "properties": facts})
        known = {"id": path, "name": path.rpartition("/")[2], "properties": {}}
        return _Answer(request, 200, {**known, **body})

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None: ...


class _Login:
    """The SDK reads claims out of the token."""

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        claims = {"oid": "1", "tid": "2", "aud": scopes[0].removesuffix("/.default")}
        parts = [{"alg": "none"}, claims]
        coded = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts]
        return AccessToken(".".join([*coded, "c2ln"]), int(time.time()) + 3600)


@contextmanager
def environment_as_it_was() -> Iterator[None]:
    """The SDK writes the name of its cloud into the environment, where other clients would find it."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Official:
    """The SDK's client, and what it sent since it was last asked."""

    def __init__(self) -> None:
        self._recorder = _Recorder()
        with environment_as_it_was():
            self.client = MLClient(_Login(), "s", "g", "w", transport=self._recorder)

    def submit(self, job: Any) -> list[Sent]:
        """The requests that make a job, the last of them the job's own."""
        self._recorder.sent.clear()
        with environment_as_it_was():
            self.client.jobs.create_or_update(job)
        return [one for one in self._recorder.sent if one[0] == "PUT"]
