"""Which function answers which method and path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from simulators.azure.messages import SimulatedRequest, SimulatedResponse

Handler = Callable[[SimulatedRequest], SimulatedResponse]
SUBSCRIPTION = "/subscriptions/{sub}"
WORKSPACE = (
    SUBSCRIPTION + "/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{ws}"
)
_PREFIXES = re.compile(r"^/(?:mferp/managementfrontend|rp/workspaces)(?=/)")


@dataclass(frozen=True)
class Route:
    """`path` has `{name}` for one segment and `{name*}` for the rest; `open` ones need no token of ARM."""

    method: str
    path: str
    handler: Handler
    open: bool = False


class Routes:
    """The table. Paths ignore case, as ARM's do."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[tuple[str, int], list[tuple[re.Pattern[str], Route]]] = {}
        self._deep: list[tuple[re.Pattern[str], Route]] = []
        for route in routes:
            pattern = re.compile(_pattern(route.path), re.IGNORECASE)
            if "*}" in route.path:
                self._deep.append((pattern, route))
            else:
                key = (route.method, route.path.count("/"))
                self._exact.setdefault(key, []).append((pattern, route))

    def find(self, request: SimulatedRequest) -> Route | None:
        """The route of a request, whose parts it fills in."""
        path = _PREFIXES.sub("", request.path).rstrip("/") or "/"
        for pattern, route in self._exact.get((request.method, path.count("/")), []):
            found = pattern.fullmatch(path)
            if found:
                request.parts = {name: unquote(value) for name, value in found.groupdict().items()}
                return route
        for pattern, route in self._deep:
            found = pattern.fullmatch(path) if route.method == request.method else None
            if found:
                request.parts = {name: unquote(value) for name, value in found.groupdict().items()}
                return route
        return None


def _pattern(path: str) -> str:
    made = re.sub(r"\\\{(\w+)\\\*\\\}", r"(?P<\1>.+)", re.escape(path))
    return re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", made)
