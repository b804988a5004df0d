"""The logs that the service keeps of a job: their names, their sizes, and pieces of them."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urlsplit

from gofer.backends.azureml.service import Service
from gofer.backends.base import NATIVE_PIECE
from gofer.core.retry import backoff, retry
from gofer.errors import CredentialError, Unreachable
from gofer.objects.wire import Wire

# The addresses are signed for hours. They are fetched again well before they end, and when one is refused.
_FRESH_S = 120.0
_VERSION = "2022-11-02"
_TRIES = 3
# Status, headers by lower-case name, body.
_Answer = tuple[int, dict[str, str], bytes]


class Logs:
    """The logs of one workspace's jobs. Any thread may read."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._urls: dict[str, tuple[float, dict[str, str]]] = {}
        self._wires: dict[str, Wire] = {}

    def names(self, job: str) -> list[str]:
        """The names of the job's logs, the most useful first; empty for a job that the service has not."""
        return sorted(self._addresses(job, fresh=True), key=order)

    def size(self, job: str, name: str) -> int | None:
        """The size of a log; None when there is no such log."""
        answer = self._ask(job, name, "HEAD", {})
        if answer is None or answer[0] != 200:
            return None
        return int(answer[1].get("content-length", 0))

    def read(self, job: str, name: str, start: int) -> bytes:
        """A piece of a log; empty when the log ends before `start` or does not exist."""
        answer = self._ask(job, name, "GET", {"Range": f"bytes={start}-{start + NATIVE_PIECE - 1}"})
        if answer is None or answer[0] not in (200, 206):
            return b""
        # For an empty log, storage ignores the range and answers 200 with the whole log.
        return answer[2] if answer[0] == 206 else answer[2][start : start + NATIVE_PIECE]

    def _ask(self, job: str, name: str, method: str, headers: dict[str, str]) -> _Answer | None:
        """The answer, or None when there is no such log.

        Raises CredentialError when a freshly signed address is refused too.
        """
        refused = None
        # First with the kept address, then with a newly signed one: signatures expire, and new logs appear.
        for fresh in (False, True):
            url = self._addresses(job, fresh=fresh).get(name)
            if url is None:
                continue
            answer = self._send(method, url, headers)
            if answer[0] in (200, 206, 404, 416):
                return answer
            refused = answer[0], urlsplit(url).netloc
        if refused is None:
            return None
        raise CredentialError(
            f"{refused[1]} answered {refused[0]} to a request for the log {name}",
            hint="the workspace's storage may be closed to this network; check whether a VPN is needed",
        )

    def _addresses(self, job: str, *, fresh: bool) -> dict[str, str]:
        held = self._urls.get(job)
        if held is None or fresh or time.monotonic() - held[0] > _FRESH_S:
            details = self._service.details(job) or {}
            held = (time.monotonic(), {str(k): str(v) for k, v in (details.get("logFiles") or {}).items()})
            self._urls[job] = held
        return held[1]

    def _send(self, method: str, url: str, more: dict[str, str]) -> _Answer:
        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}"
        wire = self._wires.setdefault(base, Wire(base))
        headers = {"x-ms-version": _VERSION, **more}

        def send() -> _Answer:
            try:
                answer = wire.send(method, f"{parts.path}?{parts.query}", headers)
                body = answer.read()
            except OSError as error:
                wire.close()
                raise _unread(parts.netloc, error) from None
            if answer.status in (429, 500, 502, 503, 504):
                raise _unread(parts.netloc, f"it answered {answer.status}")
            return answer.status, answer.headers, body

        return retry(send, errors=Unreachable, pause_s=backoff(0.3, tries=_TRIES))


def _unread(host: str, problem: object) -> Unreachable:
    return Unreachable(f"the log cannot be read from {host}: {problem}")


def order(name: str) -> tuple[int, int, list[Any]]:
    """Sort key: the command's output, then older names for it, then logs of the service; rank 0 first."""
    kind = 9
    for at, pattern in enumerate(
        (r"user_logs/std_log", r"azureml-logs/70_driver_log", r"user_logs/", r"azureml-logs/")
    ):
        if name.startswith(pattern):
            kind = at
            break
    numbers = [int(found) for found in re.findall(r"\d+", name.rpartition("/")[2].partition("_log")[2])]
    return kind, numbers[0] if numbers else 0, [name]
