"""What goes wrong with the service, drawn at random, one thing at a time, so that what was met has a name."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from linedrill.course import Trouble
from services.azure import ENDED, Azure

from drill.clock import Clock

# Requests of the drill itself are never spoiled.
_ANY = "^/(?!_sim/)"
_LOGIN = "^/[^/]+/oauth2/"
_POLL_S = 0.05
_RESUME_S = 60.0
# Longer than gofer waits for an answer, so that what it gave up on is carried out behind its back.
_SILENCE_S = 63.0


@dataclass(frozen=True)
class Kind:
    """A rule for the next requests, and how long it is left for them to come.

    `most` is how many requests one such moment spoils; `weight` how often it is drawn. A mere delay, after
    which the answer comes whole, is no failure: not `fails`.
    """

    rule: Mapping[str, Any]
    weight: float = 2.0
    most: int = 4
    wait_s: float = 1.5
    fails: bool = True


_PUT: dict[str, Any] = {"method": "PUT", "path": "/jobs/"}
PUT_LOST, PUT_CUT = "answer to a job's PUT lost", "answer to a job's PUT cut short"
KINDS: dict[str, Kind] = {
    PUT_LOST: Kind({"kind": "drop-after", **_PUT}, weight=5, wait_s=3.0),
    "answer lost": Kind({"kind": "drop-after", "path": _ANY}),
    "job's PUT never heard": Kind({"kind": "drop-before", **_PUT}, wait_s=3.0),
    "request never heard": Kind({"kind": "drop-before", "path": _ANY}),
    "429": Kind({"kind": "status", "status": 429, "retry_after": "1", "path": _ANY}),
    "503": Kind({"kind": "status", "status": 503, "path": _ANY}),
    "500": Kind({"kind": "status", "status": 500, "path": _ANY}),
    "409": Kind({"kind": "status", "status": 409, **_PUT}, weight=0.5, most=1, wait_s=3.0),
    "401": Kind({"kind": "status", "status": 401, "path": "^/subscriptions/"}, most=1),
    "401 with claims": Kind(
        {"kind": "status", "status": 401, "path": "^/subscriptions/", "claims": "eyJkdW1teSI6MX0="},
        weight=1,
        most=1,
    ),
    "login drops": Kind({"kind": "drop-after", "path": _LOGIN}, weight=1, most=2, wait_s=1.0),
    "login 503": Kind({"kind": "status", "status": 503, "path": _LOGIN}, weight=1, most=2, wait_s=1.0),
    "list page cut short": Kind({"kind": "truncate", "method": "GET", "path": r"/jobs\?"}),
    "answer cut short": Kind({"kind": "truncate", "path": _ANY}),
    PUT_CUT: Kind({"kind": "truncate", **_PUT}, wait_s=3.0),
    "slow": Kind({"kind": "delay", "seconds": 1.0, "path": _ANY}, weight=1, fails=False),
    "silence": Kind({"kind": "delay", "seconds": _SILENCE_S, "path": _ANY}, weight=0.06, most=1),
}
# What is no rule for requests: how often each is drawn.
_CLOCK = {"tokens expired": 3.0, "tokens end at once": 1.0, "clock ahead": 1.0, "clock behind": 1.0}
_PERSON = {"person's clock ahead": 1.0, "person's clock behind": 1.0}
_TAKEN = {"preempted": 3.0, "node lost": 1.0}
# By how much at the most.
_WRONG_S = 1200
# How often something goes wrong on the way to the blobs while the service fails.
_BESIDE = 0.4


@dataclass(frozen=True)
class Troubles:
    """The service fails, and something else beside it, which counts its own and is not suffered here."""

    counted: Trouble
    beside: Trouble
    share: float = _BESIDE

    def make(self, rng: Random) -> None:
        """Both at once, where both are drawn: each knows what it was that was met."""
        own = Random(rng.random())
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(self.beside.make, own) if rng.random() < self.share else None
            self.counted.make(rng)
        if other:
            other.result()

    def suffered(self) -> Counter[str]:
        return self.counted.suffered()

    def clear(self) -> None:
        self.counted.clear()
        self.beside.clear()


@dataclass(eq=False)
class ServiceTrouble:
    """The simulator's faults, and the wrong time on the `clock` of those who ask it, where that can be set.

    `taken` counts what it did to jobs that ran, which is nobody's request.
    """

    azure: Azure
    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)
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
            self._turn(name, rng)
        else:
            self._spoil(name, self.kinds[name], rng.randint(1, self.kinds[name].most))

    def suffered(self) -> Counter[str]:
        """Failures alone; see `delays`."""
        return self._met - self.delays()

    def delays(self) -> Counter[str]:
        """Answers that came late and whole."""
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
        """Jobs whose node was lost get another, once the service has noticed."""
        for name in sorted(self._lost):
            self._order(name, "resume", {})
            if self.azure.job(name)["status"] in ("Queued", *ENDED):
                self._lost.discard(name)

    def _order(self, job: str, deed: str, body: dict[str, Any]) -> bool:
        """Whether it was done: a job may have ended just now."""
        path = f"/_sim/jobs/{job}/{deed}"
        return self.azure.ask("POST", path, body, token=self.azure.admin_token)[0] < 300

    def _spoil(self, name: str, kind: Kind, count: int) -> None:
        before = self._counters()["faults"]
        self.azure.admin("POST", "/faults", {**kind.rule, "count": count})
        deadline = time.monotonic() + kind.wait_s
        while self._counters()["faults"] - before < count and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.azure.admin("DELETE", "/faults")
        # After that no request can meet it: counted now, nothing is missed and nothing is counted twice.
        self._met[name] += self._counters()["faults"] - before
        self._met += Counter()

    def _turn(self, name: str, rng: Random) -> None:
        """A moment counts once, and only when somebody asked meanwhile: for tokens, or of a wrong clock."""
        before = self._asked("oauth2" if name.startswith("tokens") else "")
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
        if self._asked("oauth2" if name.startswith("tokens") else "") > before:
            self._met[name] += 1

    def _set_right(self) -> None:
        self.azure.admin("POST", "/clock", {"skew_s": 0, "token_lifetime_s": 3600})
        if self.clock:
            self.clock.set("+0")

    def _take(self, name: str, rng: Random) -> None:
        """A job of the virtual cluster loses its nodes, with a word before or without, and gets others."""
        running = [
            job["name"]
            for job in self.azure.admin("GET", "/jobs")["value"]
            if job["status"] == "Running" and "virtualclusters" in job["properties"]["computeId"].lower()
        ]
        if not running:
            return
        job = rng.choice(running)
        if name == "preempted":
            self.taken[name] += self._order(job, "preempt", {"resume_s": rng.uniform(0.0, 1.0)})
        elif self._order(job, "fail-node", {"restart": True}):
            self.taken[name] += 1
            self._lost.add(job)

    def _counters(self) -> Any:
        return self.azure.admin("GET", "/counters")

    def _asked(self, part: str) -> int:
        requests: dict[str, int] = self._counters()["requests"]
        return sum(count for route, count in requests.items() if part in route and "/_sim/" not in route)
