"""The drill itself: submitters side by side, trouble between them and the cluster, and the reckoning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from home import Home

_SUBMIT_S = 300
_SETTLE_S = 600.0
_KILLED = 0.15
_ENDED = ("succeeded", "failed", "cancelled", "lost")
# How often the command was started, by attempt and rank.
Starts = Counter[tuple[int, int]]


class Trouble(Protocol):
    """What lies between gofer and a cluster, and can go wrong."""

    def make(self, rng: Random) -> None:
        """Spoil it once, and stay until the moment is over: some seconds at the most."""

    def suffered(self) -> Counter[str]:
        """What somebody met so far, by kind; what was ordered and met nobody is not in it."""

    def clear(self) -> None:
        """All is well again. Idempotent."""


@dataclass(frozen=True)
class Ground:
    """Where a drill is held: a home that is set up already, and what leads from it to its cluster.

    `words` stand before the command of a submission, which does `tail` last. `looks` are what somebody asks
    meanwhile. `checks` finds what else is wrong when all has ended, from the runs of the ledger by id, rows
    of arrays among them and the arrays themselves not. With `may_refuse` the trouble may make the cluster
    refuse a run for good.
    """

    home: Home
    trouble: Trouble
    words: Callable[[Random], Sequence[str]]
    looks: Sequence[Sequence[str]] = ()
    tail: str = "true"
    submit_s: float = _SUBMIT_S
    checks: Callable[[dict[str, dict[str, object]]], Iterable[str]] = lambda runs: ()
    may_refuse: bool = False


@dataclass
class Tally:
    """What was done and what was found; a violation is a line of `wrong`."""

    faults: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    looks: int = 0
    recorded: int = 0
    ran: int = 0
    again: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def render(self) -> str:
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        ends = ", ".join(f"{kind} {count}" for kind, count in sorted(self.endings.items()))
        return (
            f"faults {self.faults.total()} ({told}), gofer killed {self.kills}\n"
            f"submissions by exit status: {ends}; questions meanwhile {self.looks}\n"
            f"runs recorded {self.recorded}, ran once in each attempt {self.ran}, attempts after the first "
            f"{self.again}, refused {self.refused}, violations {len(self.wrong)}"
            + "".join(f"\n  {line}" for line in self.wrong)
        )


class Course:
    """One drill on one ground. Every word that a command said is kept in the folder `said`."""

    def __init__(self, ground: Ground, *, seed: int) -> None:
        self.ground, self.home = ground, ground.home
        self.tally = Tally()
        self.marks = self.home.root / "marks"
        self.said = self.home.root / "said"
        self._rng = Random(seed)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._printed: list[str] = []
        self._asked = 0

    def run(self, faults: int, *, submitters: int = 3) -> Tally:
        """Submit until that many faults were suffered, then let everything end, then count.

        When it raises, nobody submits any more.
        """
        self.marks.mkdir()
        self.said.mkdir()
        rngs = [Random(self._rng.random()) for _ in range(submitters)]
        threads = [threading.Thread(target=self._submit_on, args=[rng]) for rng in rngs]
        if self.ground.looks:
            threads.append(threading.Thread(target=self._look_on, args=[Random(self._rng.random())]))
        self._disturb(faults, threads)
        self.ground.trouble.clear()
        self._settle()
        self._reckon()
        return self.tally

    def _disturb(self, faults: int, threads: Sequence[threading.Thread]) -> None:
        """Make trouble for the threads; returns, or raises, when each of them has ended."""
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                self.ground.trouble.make(self._rng)
                self.tally.faults = self.ground.trouble.suffered()
                if self.tally.faults.total() >= faults:
                    self._over.set()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        if self.tally.faults.total() < faults:
            self._wrong(f"all who submit or look broke off after {self.tally.faults.total()} faults")

    def _submit_on(self, rng: Random) -> None:
        while not self._over.is_set():
            self._submit(rng)

    def _look_on(self, rng: Random) -> None:
        while not self._over.is_set():
            words = rng.choice(self.ground.looks)
            self._ask(*words)
            self.tally.looks += 1
            time.sleep(rng.uniform(0.1, 1.0))

    def _submit(self, rng: Random) -> None:
        """Each rank makes a file of its own at each start: a second start of an attempt shows."""
        mark = f"f={self.marks}/$GOFER_RUN_ID.$GOFER_ATTEMPT.$GOFER_RANK; n=1"
        script = f"{mark}; until mkdir $f.$n 2>/dev/null; do n=$((n+1)); done; {self.ground.tail}"
        words = ["submit", "-Q", *self.ground.words(rng), "sh", "-c", script]
        kill_after_s = rng.uniform(0.0, 2.0) if rng.random() < _KILLED else None
        status, out = self._ask(*words, kill_after_s=kill_after_s)
        with self._lock:
            self.tally.endings[str(status)] += 1
            self.tally.kills += status == -signal.SIGKILL
            self._printed += out.split()

    def _ask(self, *words: str, kill_after_s: float | None = None) -> tuple[int, str]:
        """One command to its end; its exit status and output."""
        with self._lock:
            self._asked += 1
            stem = self.said / f"{self._asked:05}-{words[0]}"
        with open(f"{stem}.out", "wb") as out, open(f"{stem}.err", "wb") as err:
            process = subprocess.Popen(
                self.home.argv(*words),
                cwd=self.home.folder,
                env=self.home.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
            try:
                if kill_after_s is not None:
                    time.sleep(kill_after_s)
                    os.kill(process.pid, signal.SIGKILL)
                status = process.wait(self.ground.submit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
                self._wrong(f"`gofer {' '.join(words)[:80]}` took longer than {self.ground.submit_s:g} s")
        self._mind(words, Path(f"{stem}.err").read_text(errors="replace"))
        return status, Path(f"{stem}.out").read_text(errors="replace")

    def _mind(self, words: Sequence[str], err: str) -> None:
        if "Traceback" in err and "--debug" not in words:
            self._wrong(f"a traceback of `gofer {' '.join(words)[:80]}`: {err[-300:]}")

    def _wrong(self, line: str) -> None:
        with self._lock:
            self.tally.wrong.append(line)

    def _settle(self) -> None:
        """Commands of a person who looks now and then; each may complete what was interrupted."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            if all(run["state"] in _ENDED for run in self._runs()):
                return
            time.sleep(1.0)
        open_runs = [run["id"] for run in self._runs() if run["ended_at"] is None]
        self._wrong(f"not ended after {_SETTLE_S:g} s: {open_runs}")

    def _runs(self) -> list[dict[str, object]]:
        _, out = self._ask("list", "runs", "--all", "--rows", "--json")
        found: list[dict[str, object]] = json.loads(out or "[]")
        return found

    def _reckon(self) -> None:
        found = {str(run["id"]): run for run in self._runs()}
        runs = {run_id: run for run_id, run in found.items() if run["kind"] != "group"}
        starts: dict[str, Starts] = {}
        for path in self.marks.iterdir():
            run_id, attempt, rank, _ = path.name.rsplit(".", 3)
            starts.setdefault(run_id, Counter())[int(attempt), int(rank)] += 1
        self.tally.recorded = len(runs)
        for run_id, run in runs.items():
            if self.ground.may_refuse and is_refused(run) and run_id not in starts:
                self.tally.refused += 1
                continue
            wrong = judged(run, starts.get(run_id, Counter()))
            self.tally.ran += not wrong
            self.tally.wrong += wrong
            self.tally.again += len(attempts_of(run)) - 1
        for deed, names in (("started", starts.keys()), ("printed", set(self._printed))):
            self.tally.wrong += [
                f"{one} was {deed} and is in no ledger" for one in sorted(names - found.keys())
            ]
        self.tally.wrong += [*astray(found), *self.ground.checks(runs)]


def judged(run: dict[str, object], starts: Starts) -> list[str]:
    """What is wrong with a run whose command was started so often, by attempt and rank.

    In the last attempt every rank must have started once, in an earlier one, which failed or which the
    cluster took back, at most once.
    """
    numbers = attempts_of(run)
    told = f"{run['id']} is {run['state']}, its attempts are {numbers}, started {dict(starts)}"
    ranks = {rank for attempt, rank in starts if attempt == max(numbers)}
    good = run["state"] == "succeeded" and {attempt for attempt, _ in starts} <= set(numbers)
    good = good and ranks == set(range(ranks_of(run))) and max(starts.values()) == 1
    return [] if good else [told]


def astray(found: Mapping[str, dict[str, object]]) -> list[str]:
    """Arrays that do not have each of their rows."""
    rows: dict[object, set[str]] = {}
    for run_id, run in found.items():
        rows.setdefault(run["group"], set()).add(run_id)
    wrong = []
    for run_id, run in found.items():
        size = run["rows"]
        if run["kind"] == "group":
            assert isinstance(size, int)
            if rows.get(run_id, set()) != {f"{run_id}-{row}" for row in range(size)}:
                wrong.append(f"the array {run_id} of {size} has the rows {sorted(rows.get(run_id, ()))}")
    return wrong


def is_refused(run: dict[str, object]) -> bool:
    """Whether the cluster would not have it, as its person was told."""
    return (run["state"], run["reason"]) == ("failed", "rejected")


def attempts_of(run: dict[str, object]) -> list[int]:
    """Their numbers; a run that never had one has its first before it."""
    attempts = run["attempts"]
    assert isinstance(attempts, list)
    return [int(one["number"]) for one in attempts] or [1]


def ranks_of(run: dict[str, object]) -> int:
    nodes, procs = run["nodes"], run["procs"]
    assert isinstance(nodes, int)
    assert isinstance(procs, int)
    return nodes * procs
