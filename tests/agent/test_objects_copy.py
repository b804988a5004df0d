"""A copy that the service makes: waited for while it moves, given up when it stands still or fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gofer.objects import open_objects
from gofer.objects.azure import AzureObjects
from gofer.objects.facts import NotCopied


class Service:
    """Speaks as Azure does of copies: `progress` is what each look at the copy finds, the last one for good.

    A word among them, such as `failed`, is the copy's status.
    """

    def __init__(self) -> None:
        self.progress = ["1/4"]
        self.refusal = 0
        self.asked: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                service.asked.append("abort" if "comp=copy" in self.path else "copy")
                if service.refusal:
                    self._answer(service.refusal, {})
                elif "comp=copy" in self.path:
                    self._answer(204, {})
                else:
                    self._answer(202, {"x-ms-copy-id": "one", "x-ms-copy-status": "pending"})

            def do_HEAD(self) -> None:
                service.asked.append("look")
                found = service.progress.pop(0) if len(service.progress) > 1 else service.progress[0]
                status = "pending" if found[0].isdigit() else found
                fields = {"x-ms-copy-id": "one", "x-ms-copy-status": status, "x-ms-copy-progress": found}
                self._answer(200, {**fields, "x-ms-copy-status-description": "403 Forbidden"})

            def _answer(self, status: int, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def opened(service: Service) -> AzureObjects:
    endpoint = f"http://127.0.0.1:{service.server.server_port}/dummy"
    found = open_objects(
        {"kind": "azure", "endpoint": endpoint, "container": "c", "prefix": "", "sas": "sv=1"}
    )
    assert isinstance(found, AzureObjects)
    found.copy_stall_s = 0.4
    return found


def test_a_copy_that_moves_is_waited_for(service: Service) -> None:
    service.progress = ["0/4", "1/4", "2/4", "3/4", "success"]
    opened(service).copy_from_url("http://127.0.0.1/x", "key")
    assert service.asked == ["copy", *["look"] * 5]


def test_one_that_stands_still_is_ended_and_given_up(service: Service) -> None:
    with pytest.raises(NotCopied, match="the copy has not moved for 0 s"):
        opened(service).copy_from_url("http://127.0.0.1/x", "key")
    assert service.asked[-1] == "abort"


def test_one_that_failed_says_why(service: Service) -> None:
    service.progress = ["0/4", "failed"]
    with pytest.raises(NotCopied, match="the copy is failed") as found:
        opened(service).copy_from_url("http://127.0.0.1/x", "key")
    assert found.value.detail == "403 Forbidden"


def test_a_service_that_fails_is_retried_only_for_a_short_time(service: Service) -> None:
    service.refusal = 500
    with pytest.raises(NotCopied, match="500"):
        opened(service).copy_from_url("http://127.0.0.1/x", "key")
    assert service.asked == ["copy"] * 3
