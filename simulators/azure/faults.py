"""What goes wrong on demand: rules that the next matching requests fall under."""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass

from simulators.azure.messages import Json, Refused, SimulatedResponse

_KINDS = ("status", "drop-before", "drop-after", "truncate", "delay")
_CODES = {401: "ExpiredAuthenticationToken", 403: "AuthorizationFailed", 404: "ResourceNotFound"}
_MORE_CODES = {409: "Conflict", 429: "TooManyRequests", 500: "InternalServerError", 503: "ServiceUnavailable"}


@dataclass
class Fault:
    """The next `count` requests of this method (any when empty) whose path and query match.

    `kind`: `status` answers `status` without carrying the request out, `drop-before` and `drop-after` close
    the connection before or after it is carried out, `truncate` sends half of the answer, `delay` waits
    `seconds` first. `skip` lets that many matching requests through before.
    """

    kind: str
    path: re.Pattern[str]
    method: str = ""
    count: int = 1
    skip: int = 0
    status: int = 503
    code: str = ""
    message: str = "A fault that a test posted."
    retry_after: str = ""
    claims: str = ""
    seconds: float = 0.0

    def answer(self) -> SimulatedResponse:
        """What a `status` fault says."""
        code = self.code or {**_CODES, **_MORE_CODES}.get(self.status, "Fault")
        headers = {"Retry-After": self.retry_after} if self.retry_after else {}
        if self.status == 401:
            words = 'Bearer authorization_uri="https://login.windows.net/", error="insufficient_claims"'
            headers["WWW-Authenticate"] = f'{words}, claims="{self.claims}"' if self.claims else words
        return Refused(self.status, code, self.message, headers).answer


def read_fault(body: Json) -> Fault:
    """The rule that a test posted; Refused when the document is no rule."""
    try:
        made = Fault(**{**body, "path": re.compile(str(body.get("path", "")))})
    except (TypeError, re.error) as error:
        raise Refused(400, "BadFault", str(error)) from None
    if made.kind not in _KINDS:
        raise Refused(400, "BadFault", f"kind must be one of {', '.join(_KINDS)}, not {made.kind!r}")
    return made


class Faults:
    """The rules in force, and counters of requests. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Fault] = []
        self._asked: Counter[str] = Counter()
        self._hit = 0

    def add(self, rule: Fault) -> None:
        with self._lock:
            self._rules.append(rule)

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def take(self, method: str, target: str) -> Fault | None:
        """The first rule that this request falls under, used up by one."""
        if not self._rules:
            return None
        with self._lock:
            for rule in self._rules:
                if (rule.method and rule.method != method) or not rule.path.search(target):
                    continue
                if rule.skip:
                    rule.skip -= 1
                    continue
                rule.count -= 1
                self._hit += 1
                if rule.count <= 0:
                    self._rules.remove(rule)
                return rule
        return None

    def count(self, method: str, route: str) -> None:
        with self._lock:
            self._asked[f"{method} {route}"] += 1

    def report(self) -> Json:
        """Requests by method and route, faults handed out, and faults still waiting."""
        with self._lock:
            return {"requests": dict(self._asked), "faults": self._hit, "waiting": len(self._rules)}

    def reset_counters(self) -> None:
        with self._lock:
            self._asked.clear()
            self._hit = 0
