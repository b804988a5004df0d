"""Progress of a mapped folder, in the events of its node."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

_REPORT_S = 5.0

Event = Callable[..., None]


class FolderProgress:
    """Reports one folder: an event for each step, and counts every few seconds in between."""

    def __init__(self, event: Event, name: str, mode: str) -> None:
        self._event = event
        self._about = {"name": name, "mode": mode}
        self._step = ""
        self._counts: Dict[str, Any] = {}
        self._next_report = 0.0

    def report(self, step: str, **facts: object) -> None:
        self._step = step
        self._event("folder", **self._about, step=step, **self._counts, **facts)
        self._next_report = time.monotonic() + _REPORT_S

    def receive(self, message: Dict[str, Any]) -> None:
        if "waiting" in message:
            self._event("folder", **self._about, step="waiting")
            self._next_report = 0.0
            return
        self._counts = message
        if time.monotonic() >= self._next_report:
            self.report(self._step)
