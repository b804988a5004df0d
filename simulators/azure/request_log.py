"""What clients asked, word for word, for tests that hold them to the contract; kept only when told to."""

from __future__ import annotations

import threading

from simulators.azure.messages import Json, SimulatedRequest

_MOST = 10_000


class RequestLog:
    """Any thread. Tokens are not kept, only which headers there were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Json] | None = None

    def listen(self) -> None:
        """From now on, and from nothing."""
        with self._lock:
            self._kept = []

    def report(self) -> Json:
        """What was heard since; nothing is kept any more."""
        with self._lock:
            kept, self._kept = self._kept or [], None
        return {"requests": kept}

    def keep(self, request: SimulatedRequest, route: str) -> None:
        """A request and the route that it took."""
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
