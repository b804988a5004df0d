"""What goes wrong on the way to the blobs, for gofer here and for the agents on the nodes alike."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from services.proxy import Fault, Proxy, Request

_POLL_S = 0.05
_DELAYS = ("slow", "drip")
_BUSY = (
    b'<?xml version="1.0" encoding="utf-8"?><Error><Code>ServerBusy</Code><Message>dummy</Message></Error>'
)


@dataclass(frozen=True)
class BlobFaultKind:
    """What the next requests suffer whose method and address match, and how long they are waited for.

    `most` is how many of them one such moment spoils; 0 spoils all until it is over, and counts as one. With
    `stays` it is left for them to come, while other things go wrong.
    """

    fault: Fault
    weight: float = 2.0
    most: int = 4
    method: str = ""
    path: str = ""
    wait_s: float = 1.5
    stays: bool = False


BLOB_KINDS: dict[str, BlobFaultKind] = {
    "blob: request not received": BlobFaultKind(Fault("reset")),
    "blob: answer lost": BlobFaultKind(Fault("lost"), method="GET|HEAD"),
    "blob: answer to a write lost": BlobFaultKind(Fault("lost"), weight=5, method="PUT|DELETE"),
    "blob: answer to a block list lost": BlobFaultKind(
        Fault("lost"), weight=3, most=1, method="PUT", path="comp=blocklist", stays=True
    ),
    "blob: block of a large object not received": BlobFaultKind(
        Fault("reset"), weight=1, most=2, method="PUT", path="comp=block&", stays=True
    ),
    "blob: answer cut short": BlobFaultKind(Fault("truncate"), method="GET"),
    "blob: 503": BlobFaultKind(Fault("status", 503, body=_BUSY)),
    "blob: 503 with Retry-After": BlobFaultKind(Fault("status", 503, retry_after="1", body=_BUSY)),
    "blob: 500": BlobFaultKind(Fault("status", 500)),
    "blob: slow": BlobFaultKind(Fault("slow", seconds=1.0)),
    "blob: slow answer": BlobFaultKind(Fault("drip", seconds=1.0), method="GET"),
    "blob: store away": BlobFaultKind(Fault("reset"), weight=0.3, most=0, wait_s=8.0),
}


@dataclass
class _Rule:
    """A kind in force, for `left` more requests."""

    name: str
    kind: BlobFaultKind
    left: int
    is_met: bool = False

    def takes(self, request: Request) -> bool:
        kind = self.kind
        is_meant = re.fullmatch(kind.method, request.method) if kind.method else True
        return bool(is_meant and re.search(kind.path, request.path))


@dataclass(eq=False)
class BlobFaults:
    """Spoils what passes the proxy. `by_nodes` counts what was met by who opens the store with a SAS."""

    proxy: Proxy
    kinds: Mapping[str, BlobFaultKind] = field(default_factory=lambda: BLOB_KINDS)
    by_nodes: int = 0
    _met: Counter[str] = field(default_factory=Counter)
    _rules: list[_Rule] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proxy.faults = self._decide

    def make(self, rng: Random) -> None:
        name = rng.choices(list(self.kinds), [kind.weight for kind in self.kinds.values()])[0]
        self.inject(name, rng.randint(1, self.kinds[name].most or 1))

    def inject(self, name: str, count: int) -> None:
        kind = self.kinds[name]
        waiting = [one for one in self._rules if one.left]
        if kind.stays and any(one.name == name for one in waiting):
            return
        rule = _Rule(name, kind, count)
        self._rules = [*waiting, rule]
        deadline = time.monotonic() + (0.0 if kind.stays else kind.wait_s)
        while rule.left and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not kind.stays:
            self._rules = [one for one in self._rules if one is not rule]

    def met_by_clients(self) -> Counter[str]:
        """Failures alone; see `delays`."""
        return self._met - self.delays()

    def delays(self) -> Counter[str]:
        """Requests and answers that came late and whole."""
        mere = {name for name, kind in self.kinds.items() if kind.fault.kind in _DELAYS}
        return Counter({name: count for name, count in self._met.items() if name in mere})

    def clear(self) -> None:
        self._rules = []

    def _decide(self, request: Request) -> Fault | None:
        """In the proxy's thread alone."""
        for rule in self._rules:
            if rule.left and rule.takes(request):
                is_counted = rule.kind.most > 0 or not rule.is_met
                rule.is_met = True
                rule.left -= min(rule.kind.most, 1)
                self._met[rule.name] += is_counted
                self.by_nodes += is_counted and "sig=" in request.path
                return rule.kind.fault
        return None
