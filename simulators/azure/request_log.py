"""The requests of clients, word for word, for tests of the wire format; recorded only after `listen`."""

from __future__ import annotations

import threading

from simulators.azure.messages import Json, SimulatedRequest

_MOST = 10_000


class RequestLog:
    """Any thread. The log has the names of headers and no tokens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Json] | None = None

    def listen(self) -> None:
        """Start recording with an empty log."""
        with self._lock:
            self._kept = []

    def report(self) -> Json:
        """The recorded requests. Recording ends."""
        with self._lock:
            kept, self._kept = self._kept or [], None
        return {"requests": kept}

    def keep(self, request: SimulatedRequest, route: str) -> None:
        """Record a request and its route."""
        if route.startswith("/_sim/"):
            return
        one: Json = {
            "method": request.method,
            "route": route,
            "path": request.path,
            "query": request.query,
            "headers": sorted(request.headers),
            "body": request.body.decode("utf-8", "replace"),
        }
        with self._lock:
            if self._kept is not None and len(self._kept) < _MOST:
                self._kept.append(one)
