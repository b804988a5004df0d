"""The logs that the service keeps of a job: which there are, and their bytes by range."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urlsplit

from gofer.agent.objects.wire import Wire
from gofer.backends.azureml.service import Service
from gofer.backends.base import NativeLog
from gofer.errors import Unreachable

# The addresses are signed for hours; a new one is asked for well before that, and when one is refused.
_FRESH_S = 120.0
_VERSION = "2022-11-02"
_TRIES = 3


class Logs:
    """The logs of one workspace's jobs. Any thread may read."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._urls: dict[str, tuple[float, dict[str, str]]] = {}
        self._wires: dict[str, Wire] = {}

    def names(self, job: str) -> list[NativeLog]:
        """What people look at first stands first; empty for a job that the service does not know."""
        return [NativeLog(name) for name in sorted(self._addresses(job, fresh=True), key=order)]

    def read(self, job: str, name: str, start: int) -> bytes:
        """Empty when there is nothing from `start` on, or no such log."""
        for fresh in (False, True):
            url = self._addresses(job, fresh=fresh).get(name)
            if url is None:
                continue
            status, body = self._get(url, start)
            if status in (200, 206):
                return body if status == 206 else body[start:]
            if status in (404, 416):
                return b""
        return b""

    def _addresses(self, job: str, *, fresh: bool) -> dict[str, str]:
        held = self._urls.get(job)
        if held is None or fresh or time.monotonic() - held[0] > _FRESH_S:
            details = self._service.details(job) or {}
            held = (time.monotonic(), {str(k): str(v) for k, v in (details.get("logFiles") or {}).items()})
            self._urls[job] = held
        return held[1]

    def _get(self, url: str, start: int) -> tuple[int, bytes]:
        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}"
        wire = self._wires.setdefault(base, Wire(base))
        headers = {"x-ms-version": _VERSION, "Range": f"bytes={start}-"}
        problem: Any = None
        for tried in range(_TRIES):
            try:
                answer = wire.send("GET", f"{parts.path}?{parts.query}", headers)
                body = answer.read()
            except OSError as error:
                problem = error
                wire.close()
            else:
                if answer.status not in (429, 500, 502, 503, 504):
                    return answer.status, body
                problem = f"the answer is {answer.status}"
            time.sleep(0.3 * 2**tried)
        raise Unreachable(f"the service's log cannot be read from {parts.netloc}: {problem}")


def order(name: str) -> tuple[int, int, list[Any]]:
    """The command's own output, then the older names for it, then what the service says; rank 0 first."""
    kind = 9
    for at, pattern in enumerate(
        (r"user_logs/std_log", r"azureml-logs/70_driver_log", r"user_logs/", r"azureml-logs/")
    ):
        if name.startswith(pattern):
            kind = at
            break
    numbers = [int(found) for found in re.findall(r"\d+", name.rpartition("/")[2].partition("_log")[2])]
    return kind, numbers[0] if numbers else 0, [name]
