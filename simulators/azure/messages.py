"""One request and one answer of the simulator, and the errors its services speak in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

# A document as the service speaks it. The simulator passes on what it was given, so it is not typed further.
Json = dict[str, Any]


@dataclass
class SimulatedRequest:
    """What a client asked. `path` is as sent, still quoted; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    # The address by which the client reached the simulator, for links in answers.
    base: str
    parts: dict[str, str] = field(default_factory=dict)

    def json(self) -> Json:
        """The body; Refused with 400 when it is no JSON object."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            raise Refused(400, "BadRequest", "The request body is not valid JSON.") from None
        if not isinstance(value, dict):
            raise Refused(400, "BadRequest", "The request body is not a JSON object.")
        return value


@dataclass
class SimulatedResponse:
    """`body` is JSON unless it is bytes already."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def payload(self) -> bytes:
        if self.body is None:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body, separators=(",", ":")).encode()


class Refused(Exception):
    """Ends a request with an error of ARM's form."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.answer = SimulatedResponse(status, {"error": {"code": code, "message": message}}, headers or {})


def not_found(kind: str, name: str) -> Refused:
    return Refused(404, "ResourceNotFound", f"The {kind} '{name}' was not found.")


def user_error(message: str, status: int = 400) -> Refused:
    """A refusal for what the caller wrote, in the form of the workspace's own services."""
    refused = Refused(status, "UserError", message)
    refused.answer.body["error"]["details"] = []
    return refused
