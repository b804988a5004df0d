"""`LineDrill`: parallel submitters, faults between them and the cluster, and checks at the end."""

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


class FaultSource(Protocol):
    """Something between gofer and a cluster that can cause faults."""

    def make(self, rng: Random) -> None:
        """Cause one fault and block until it is over: some seconds at most."""

    def met_by_clients(self) -> Counter[str]:
        """The faults that a client met so far, by kind. A fault that no client met does not count."""

    def clear(self) -> None:
        """Remove all faults. Idempotent."""


@dataclass(frozen=True)
class DrillSetup:
    """A home that is set up, and the source of faults between it and its cluster.

    `words` are the options of a submission; its command runs `tail` at the end. `questions` are commands that
    another thread runs meanwhile. `checks` returns further violations when all runs have ended; it gets the
    runs of the ledger by id, with the rows of arrays and without the arrays themselves. With `may_refuse` a
    fault may make the cluster refuse a run for good.
    """

    home: Home
    faults: FaultSource
    words: Callable[[Random], Sequence[str]]
    questions: Sequence[Sequence[str]] = ()
    tail: str = "true"
    submit_s: float = _SUBMIT_S
    checks: Callable[[dict[str, dict[str, object]]], Iterable[str]] = lambda runs: ()
    may_refuse: bool = False


@dataclass
class Tally:
    """What the drill did and found. Each line of `wrong` is a violation."""

    faults: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    questions: int = 0
    recorded: int = 0
    ran: int = 0
    again: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def render(self) -> str:
        summary = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        ends = ", ".join(f"{kind} {count}" for kind, count in sorted(self.endings.items()))
        return (
            f"faults {self.faults.total()} ({summary}), gofer killed {self.kills}\n"
            f"submissions by exit status: {ends}; questions meanwhile {self.questions}\n"
            f"runs recorded {self.recorded}, ran once in each attempt {self.ran}, attempts after the first "
            f"{self.again}, refused {self.refused}, violations {len(self.wrong)}"
            + "".join(f"\n  {line}" for line in self.wrong)
        )


class LineDrill:
    """One drill. The folder `outputs` keeps the output of every command."""

    def __init__(self, setup: DrillSetup, *, seed: int) -> None:
        self.setup, self.home = setup, setup.home
        self.tally = Tally()
        self.marks = self.home.root / "marks"
        self.outputs = self.home.root / "outputs"
        self._rng = Random(seed)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._printed: list[str] = []
        self._asked = 0

    def run(self, faults: int, *, submitters: int = 3) -> Tally:
        """Submit until clients met that many faults, wait until every run has ended, then check.

        When it raises, no thread submits after that.
        """
        self.marks.mkdir()
        self.outputs.mkdir()
        rngs = [Random(self._rng.random()) for _ in range(submitters)]
        threads = [threading.Thread(target=self._submit_repeatedly, args=[rng]) for rng in rngs]
        if self.setup.questions:
            threads.append(threading.Thread(target=self._look_repeatedly, args=[Random(self._rng.random())]))
        self._disturb(faults, threads)
        self.setup.faults.clear()
        self._settle()
        self._check_runs()
        return self.tally

    def _disturb(self, faults: int, threads: Sequence[threading.Thread]) -> None:
        """Cause faults while the threads run. Returns or raises when each thread has ended."""
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                self.setup.faults.make(self._rng)
                self.tally.faults = self.setup.faults.met_by_clients()
                if self.tally.faults.total() >= faults:
                    self._over.set()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        if self.tally.faults.total() < faults:
            self._wrong(f"all submitters stopped after {self.tally.faults.total()} faults")

    def _submit_repeatedly(self, rng: Random) -> None:
        while not self._over.is_set():
            self._submit(rng)

    def _look_repeatedly(self, rng: Random) -> None:
        while not self._over.is_set():
            words = rng.choice(self.setup.questions)
            self._ask(*words)
            self.tally.questions += 1
            time.sleep(rng.uniform(0.1, 1.0))

    def _submit(self, rng: Random) -> None:
        """Each rank makes a new folder at each start, so that a second start of an attempt is visible."""
        mark = f"f={self.marks}/$GOFER_RUN_ID.$GOFER_ATTEMPT.$GOFER_RANK; n=1"
        script = f"{mark}; until mkdir $f.$n 2>/dev/null; do n=$((n+1)); done; {self.setup.tail}"
        words = ["submit", "-Q", *self.setup.words(rng), "sh", "-c", script]
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
            stem = self.outputs / f"{self._asked:05}-{words[0]}"
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
                status = process.wait(self.setup.submit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
                self._wrong(f"`gofer {' '.join(words)[:80]}` took longer than {self.setup.submit_s:g} s")
        self._check_errors(words, Path(f"{stem}.err").read_text(errors="replace"))
        return status, Path(f"{stem}.out").read_text(errors="replace")

    def _check_errors(self, words: Sequence[str], err: str) -> None:
        if "Traceback" in err and "--debug" not in words:
            self._wrong(f"a traceback of `gofer {' '.join(words)[:80]}`: {err[-300:]}")

    def _wrong(self, line: str) -> None:
        with self._lock:
            self.tally.wrong.append(line)

    def _settle(self) -> None:
        """List the runs every second. Each listing may complete an interrupted submission."""
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

    def _check_runs(self) -> None:
        found = {str(run["id"]): run for run in self._runs()}
        runs = {run_id: run for run_id, run in found.items() if run["kind"] != "group"}
        starts: dict[str, Starts] = {}
        for path in self.marks.iterdir():
            run_id, attempt, rank, _ = path.name.rsplit(".", 3)
            starts.setdefault(run_id, Counter())[int(attempt), int(rank)] += 1
        self.tally.recorded = len(runs)
        for run_id, run in runs.items():
            if self.setup.may_refuse and is_refused(run) and run_id not in starts:
                self.tally.refused += 1
                continue
            wrong = start_errors(run, starts.get(run_id, Counter()))
            self.tally.ran += not wrong
            self.tally.wrong += wrong
            self.tally.again += len(attempts_of(run)) - 1
        for event, names in (("started", starts.keys()), ("printed", set(self._printed))):
            self.tally.wrong += [
                f"{one} was {event} and is in no ledger" for one in sorted(names - found.keys())
            ]
        self.tally.wrong += [*incomplete_arrays(found), *self.setup.checks(runs)]


def start_errors(run: dict[str, object], starts: Starts) -> list[str]:
    """Violations of a run; `starts` counts the starts of its command by attempt and rank.

    Every rank must have started once in the last attempt and at most once in an earlier one.
    """
    numbers = attempts_of(run)
    summary = f"{run['id']} is {run['state']}, its attempts are {numbers}, started {dict(starts)}"
    ranks = {rank for attempt, rank in starts if attempt == max(numbers)}
    good = run["state"] == "succeeded" and {attempt for attempt, _ in starts} <= set(numbers)
    good = good and ranks == set(range(ranks_of(run))) and max(starts.values()) == 1
    return [] if good else [summary]


def incomplete_arrays(found: Mapping[str, dict[str, object]]) -> list[str]:
    """Arrays without all of their rows."""
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
    """Whether the cluster refused the run, according to its reason."""
    return (run["state"], run["reason"]) == ("failed", "rejected")


def attempts_of(run: dict[str, object]) -> list[int]:
    """The numbers of the attempts; a run without an attempt gets [1]."""
    attempts = run["attempts"]
    assert isinstance(attempts, list)
    return [int(one["number"]) for one in attempts] or [1]


def ranks_of(run: dict[str, object]) -> int:
    nodes, procs = run["nodes"], run["procs"]
    assert isinstance(nodes, int)
    assert isinstance(procs, int)
    return nodes * procs
