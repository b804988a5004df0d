"""Random faults of the service, one at a time, so that each fault that a client meets has a name."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from linedrill.line_drill import FaultSource
from services.azure import ENDED, Azure

from drill.clock import Clock

# Requests of the drill itself get no faults.
_ANY = "^/(?!_sim/)"
_LOGIN = "^/[^/]+/oauth2/"
_POLL_S = 0.05
_RESUME_S = 60.0
# Longer than gofer waits for an answer: the service carries out requests that gofer has given up on.
_SILENCE_S = 63.0


@dataclass(frozen=True)
class FaultKind:
    """A rule for the next requests, and how long the drill waits for such requests.

    `most` is the largest number of requests affected by a fault, `weight` how often it is drawn. A delay
    after which the answer comes whole is no failure: `fails` is false.
    """

    rule: Mapping[str, Any]
    weight: float = 2.0
    most: int = 4
    wait_s: float = 1.5
    fails: bool = True


_PUT: dict[str, Any] = {"method": "PUT", "path": "/jobs/"}
PUT_LOST, PUT_CUT = "answer to a job's PUT lost", "answer to a job's PUT cut short"
KINDS: dict[str, FaultKind] = {
    PUT_LOST: FaultKind({"kind": "drop-after", **_PUT}, weight=5, wait_s=3.0),
    "answer lost": FaultKind({"kind": "drop-after", "path": _ANY}),
    "job's PUT not received": FaultKind({"kind": "drop-before", **_PUT}, wait_s=3.0),
    "request not received": FaultKind({"kind": "drop-before", "path": _ANY}),
    "429": FaultKind({"kind": "status", "status": 429, "retry_after": "1", "path": _ANY}),
    "503": FaultKind({"kind": "status", "status": 503, "path": _ANY}),
    "500": FaultKind({"kind": "status", "status": 500, "path": _ANY}),
    "409": FaultKind({"kind": "status", "status": 409, **_PUT}, weight=0.5, most=1, wait_s=3.0),
    "401": FaultKind({"kind": "status", "status": 401, "path": "^/subscriptions/"}, most=1),
    "401 with claims": FaultKind(
        {"kind": "status", "status": 401, "path": "^/subscriptions/", "claims": "eyJkdW1teSI6MX0="},
        weight=1,
        most=1,
    ),
    "login drops": FaultKind({"kind": "drop-after", "path": _LOGIN}, weight=1, most=2, wait_s=1.0),
    "login 503": FaultKind({"kind": "status", "status": 503, "path": _LOGIN}, weight=1, most=2, wait_s=1.0),
    "list page cut short": FaultKind({"kind": "truncate", "method": "GET", "path": r"/jobs\?"}),
    "answer cut short": FaultKind({"kind": "truncate", "path": _ANY}),
    PUT_CUT: FaultKind({"kind": "truncate", **_PUT}, wait_s=3.0),
    "slow": FaultKind({"kind": "delay", "seconds": 1.0, "path": _ANY}, weight=1, fails=False),
    "silence": FaultKind({"kind": "delay", "seconds": _SILENCE_S, "path": _ANY}, weight=0.06, most=1),
}
# Faults that are no rules for requests, with their weights.
_CLOCK = {"tokens expired": 3.0, "tokens end at once": 1.0, "clock ahead": 1.0, "clock behind": 1.0}
_PERSON = {"person's clock ahead": 1.0, "person's clock behind": 1.0}
_TAKEN = {"preempted": 3.0, "node lost": 1.0}
# The largest error of a clock.
_WRONG_S = 1200
# How often requests for blobs fail while the service fails.
_BESIDE = 0.4


@dataclass(frozen=True)
class CombinedFaults:
    """Faults of the service, and other faults at the same time, which are counted elsewhere."""

    counted: FaultSource
    beside: FaultSource
    share: float = _BESIDE

    def make(self, rng: Random) -> None:
        """Both at the same time, when both are drawn. Each source counts its own faults."""
        own = Random(rng.random())
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(self.beside.make, own) if rng.random() < self.share else None
            self.counted.make(rng)
        if other:
            other.result()

    def met_by_clients(self) -> Counter[str]:
        return self.counted.met_by_clients()

    def clear(self) -> None:
        self.counted.clear()
        self.beside.clear()


@dataclass(eq=False)
class ServiceFaults:
    """The faults of the simulator, and a wrong `clock` of its clients where a clock can be set.

    `taken` counts jobs that were preempted or lost their node.
    """

    azure: Azure
    kinds: Mapping[str, FaultKind] = field(default_factory=lambda: KINDS)
    clock: Clock | None = None
    taken: Counter[str] = field(default_factory=Counter)
    _met: Counter[str] = field(default_factory=Counter)
    _lost: set[str] = field(default_factory=set)

    def make(self, rng: Random) -> None:
        self._resume()
        weights = {**{name: kind.weight for name, kind in self.kinds.items()}, **_CLOCK, **_TAKEN}
        weights |= _PERSON if self.clock else {}
        name = rng.choices(list(weights), list(weights.values()))[0]
        if name in _TAKEN:
            self._take(name, rng)
        elif name not in self.kinds:
            self._set_clocks(name, rng)
        else:
            self._inject(name, self.kinds[name], rng.randint(1, self.kinds[name].most))

    def met_by_clients(self) -> Counter[str]:
        """Only failures; see `delays`."""
        return self._met - self.delays()

    def delays(self) -> Counter[str]:
        """Answers that came late and complete."""
        mere = {name for name, kind in self.kinds.items() if not kind.fails}
        return Counter({name: count for name, count in self._met.items() if name in mere})

    def clear(self) -> None:
        self.azure.admin("DELETE", "/faults")
        self._set_right()
        deadline = time.monotonic() + _RESUME_S
        while self._lost and time.monotonic() < deadline:
            self._resume()
            time.sleep(_POLL_S)

    def _resume(self) -> None:
        """A job whose node was lost gets another node once the service has noticed."""
        for name in sorted(self._lost):
            self._tell_simulator(name, "resume", {})
            if self.azure.job(name)["status"] in ("Queued", *ENDED):
                self._lost.discard(name)

    def _tell_simulator(self, job: str, action: str, body: dict[str, Any]) -> bool:
        """Whether it was done: a job may have ended just now."""
        path = f"/_sim/jobs/{job}/{action}"
        return self.azure.ask("POST", path, body, token=self.azure.admin_token)[0] < 300

    def _inject(self, name: str, kind: FaultKind, count: int) -> None:
        before = self._counters()["faults"]
        self.azure.admin("POST", "/faults", {**kind.rule, "count": count})
        deadline = time.monotonic() + kind.wait_s
        while self._counters()["faults"] - before < count and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.azure.admin("DELETE", "/faults")
        # No request can meet the fault after this line, so that the count is exact.
        self._met[name] += self._counters()["faults"] - before
        self._met += Counter()

    def _set_clocks(self, name: str, rng: Random) -> None:
        """Counts once, and only if a client sent a request meanwhile: for a token, or with a wrong clock."""
        before = self._request_count("oauth2" if name.startswith("tokens") else "")
        if name == "tokens expired":
            self.azure.admin("POST", "/tokens/expire")
        elif name == "tokens end at once":
            self.azure.admin("POST", "/clock", {"token_lifetime_s": 1})
            self.azure.admin("POST", "/tokens/expire")
        elif self.clock and name in _PERSON:
            sign = "+" if name.endswith("ahead") else "-"
            self.clock.set(f"{sign}{rng.randint(60, _WRONG_S)}")
        else:
            skew_s = rng.uniform(300, 7200) * (1 if name == "clock ahead" else -1)
            self.azure.admin("POST", "/clock", {"skew_s": skew_s})
        time.sleep(rng.uniform(0.5, 2.0))
        self._set_right()
        if self._request_count("oauth2" if name.startswith("tokens") else "") > before:
            self._met[name] += 1

    def _set_right(self) -> None:
        self.azure.admin("POST", "/clock", {"skew_s": 0, "token_lifetime_s": 3600})
        if self.clock:
            self.clock.set("+0")

    def _take(self, name: str, rng: Random) -> None:
        """A job of the virtual cluster loses its nodes, with or without notice, and gets others."""
        running = [
            job["name"]
            for job in self.azure.admin("GET", "/jobs")["value"]
            if job["status"] == "Running" and "virtualclusters" in job["properties"]["computeId"].lower()
        ]
        if not running:
            return
        job = rng.choice(running)
        if name == "preempted":
            self.taken[name] += self._tell_simulator(job, "preempt", {"resume_s": rng.uniform(0.0, 1.0)})
        elif self._tell_simulator(job, "fail-node", {"restart": True}):
            self.taken[name] += 1
            self._lost.add(job)

    def _counters(self) -> Any:
        return self.azure.admin("GET", "/counters")

    def _request_count(self, part: str) -> int:
        requests: dict[str, int] = self._counters()["requests"]
        return sum(count for route, count in requests.items() if part in route and "/_sim/" not in route)
