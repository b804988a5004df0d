"""What goes wrong between gofer and the API server, by a proxy that sees each request."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from services.proxy import Fault, Proxy, Request

_POLL_S = 0.05
_WAIT_S = 1.5
_COLLECTION = re.compile(r"/namespaces/[^/]+/([a-z]+)")
_DELAYS = ("slow", "drip")


def _status(code: int, reason: str, message: str, retry_after: str | None = None) -> Fault:
    """The answer of an API server that refuses."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return Fault("status", code, retry_after, json.dumps(document).encode())


# Kubernetes answers so to a creation when two requests change a quota at once.
_QUOTA = 'Operation cannot be fulfilled on resourcequotas "team": the object has been modified; please apply'
_CHANGED = "the object has been modified; please apply your changes to the latest version and try again"
_BUSY = "the server has received too many requests and has asked us to try again later"


@dataclass(frozen=True)
class ApiFaultKind:
    """What the next requests suffer whose method and address match: at most `most` of them.

    With `kills`, the process that sent the request is killed before the fault.
    """

    fault: Fault
    weight: float = 2.0
    most: int = 4
    method: str = ""
    path: str = ""
    kills: bool = False


API_KINDS: Mapping[str, ApiFaultKind] = {
    "request not received": ApiFaultKind(Fault("reset")),
    "answer lost": ApiFaultKind(Fault("lost")),
    "answer to a write lost": ApiFaultKind(Fault("lost"), weight=5, method="POST|PATCH|DELETE"),
    "answer cut short": ApiFaultKind(Fault("truncate"), method="GET"),
    "409 to a write, the quota changed": ApiFaultKind(
        _status(409, "Conflict", _QUOTA), method="POST", path="/(jobs|secrets|configmaps)"
    ),
    "409 to a change": ApiFaultKind(_status(409, "Conflict", _CHANGED), method="PATCH|DELETE"),
    "410 to a watch or a page": ApiFaultKind(
        _status(410, "Expired", "too old resource version"), path="watch=1|continue="
    ),
    "429": ApiFaultKind(_status(429, "TooManyRequests", _BUSY)),
    "429 with Retry-After": ApiFaultKind(_status(429, "TooManyRequests", _BUSY, "1")),
    "500": ApiFaultKind(_status(500, "InternalError", "etcdserver: request timed out")),
    "503": ApiFaultKind(_status(503, "ServiceUnavailable", "the server is currently unable")),
    "504": ApiFaultKind(_status(504, "Timeout", "request did not complete within the allotted timeout")),
    "slow": ApiFaultKind(Fault("slow", seconds=1.0)),
    "killed before a write": ApiFaultKind(Fault("reset"), most=1, method="POST|PATCH|DELETE", kills=True),
    "killed after a write": ApiFaultKind(Fault("lost"), most=1, method="POST|PATCH|DELETE", kills=True),
    "killed before a question": ApiFaultKind(Fault("reset"), weight=1, most=1, method="GET", kills=True),
    "killed after a question": ApiFaultKind(Fault("lost"), weight=1, most=1, method="GET", kills=True),
}


@dataclass
class _Rule:
    """A kind in force, for `left` more requests."""

    name: str
    kind: ApiFaultKind
    left: int

    def takes(self, request: Request) -> bool:
        kind = self.kind
        is_meant = re.fullmatch(kind.method, request.method) if kind.method else True
        return bool(is_meant and re.search(kind.path, request.path))


@dataclass(eq=False)
class ApiFaults:
    """Spoils what passes the proxy. `calls` counts the requests at which a client was killed, by kind."""

    proxy: Proxy
    kinds: Mapping[str, ApiFaultKind] = field(default_factory=lambda: API_KINDS)
    calls: Counter[str] = field(default_factory=Counter)
    _met: Counter[str] = field(default_factory=Counter)
    _rule: _Rule | None = None

    def __post_init__(self) -> None:
        self.proxy.faults = self._decide

    def make(self, rng: Random) -> None:
        """One kind of fault, until it was met or for a moment."""
        name = rng.choices(list(self.kinds), [kind.weight for kind in self.kinds.values()])[0]
        rule = self._rule = _Rule(name, self.kinds[name], rng.randint(1, self.kinds[name].most))
        deadline = time.monotonic() + _WAIT_S
        while rule.left and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._rule = None

    def met_by_clients(self) -> Counter[str]:
        """Failures alone: a request that was only slow is none."""
        mere = {name for name, kind in self.kinds.items() if kind.fault.kind in _DELAYS}
        return Counter({name: count for name, count in self._met.items() if name not in mere})

    def clear(self) -> None:
        self._rule = None

    def _decide(self, request: Request) -> Fault | None:
        """In the proxy's thread alone."""
        rule = self._rule
        if rule is None or not rule.left or not rule.takes(request):
            return None
        if rule.kind.kills:
            if not kill_sender(request.peer, self.proxy.port):
                return None
            found = _COLLECTION.search(request.path)
            self.calls[f"{request.method} {found[1] if found else request.path}"] += 1
        rule.left -= 1
        self._met[rule.name] += 1
        return rule.kind.fault


def kill_sender(port: int, to_port: int) -> bool:
    """Kill the child of this process that has a connection from this port of 127.0.0.1; False without one."""
    inode = _inode_of(port, to_port)
    for pid in _children() if inode else ():
        with suppress(OSError):
            links = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")}
            if f"socket:[{inode}]" in links:
                handle = os.pidfd_open(pid)
                try:
                    if pid in _children():
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                        return True
                finally:
                    os.close(handle)
    return False


def _inode_of(port: int, to_port: int) -> str:
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in file.readlines()[1:]:
            fields = line.split()
            ports = [int(address.rpartition(":")[2], 16) for address in fields[1:3]]
            if ports == [port, to_port]:
                return fields[9]
    return ""


def _children() -> Iterator[int]:
    """The processes that this one started, in whichever of its threads."""
    for task in os.scandir("/proc/self/task"):
        with suppress(OSError), open(f"{task.path}/children", encoding="ascii") as file:
            yield from map(int, file.read().split())
