"""The drill itself: submitters side by side, faults between them and the cluster, and the reckoning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from clusters.line import Line
from home import Home

from linedrill.faults import disturb

_SUBMIT_S = 90
_SETTLE_S = 600.0
_KILLED = 0.15


@dataclass
class Tally:
    """What was done and what was found; a violation is a line of `wrong`."""

    faults: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    recorded: int = 0
    ran: int = 0
    wrong: list[str] = field(default_factory=list)

    def render(self) -> str:
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        ends = ", ".join(f"{kind} {count}" for kind, count in sorted(self.endings.items()))
        return (
            f"faults {self.faults.total()} ({told}), gofer killed {self.kills}\n"
            f"submissions by exit status: {ends}\n"
            f"runs recorded {self.recorded}, ran once {self.ran}, violations {len(self.wrong)}"
            + "".join(f"\n  {line}" for line in self.wrong)
        )


class Course:
    """One drill on one target of a home that is set up already; `line` is what leads to its cluster."""

    def __init__(self, home: Home, target: str, line: Line, *, seed: int) -> None:
        self.home, self.target, self.line = home, target, line
        self.tally = Tally()
        self.marks = home.root / "marks"
        self._rng = Random(seed)
        self._lock = threading.Lock()
        self._printed: list[str] = []
        self._suffered = 0

    def run(self, faults: int, *, submitters: int = 3) -> Tally:
        """Submit until that many faults were made, then let everything end, then count."""
        self.marks.mkdir()
        threads = [
            threading.Thread(target=self._submit_on, args=[faults, Random(self._rng.random())])
            for _ in range(submitters)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            kind = disturb(self.line, self._rng)
            time.sleep(self._rng.uniform(0.05, 0.6))
            self._count(kind)
            if kind == "stall" or self._rng.random() < 0.3:
                self.line.clear()
        self.line.clear()
        self._settle()
        self._reckon()
        return self.tally

    def _count(self, kind: str | None) -> None:
        """Only what a connection suffered; faults that were ordered and met nobody do not count."""
        suffered = self.line.counts().faults
        with self._lock:
            if kind == "cut":
                self.tally.faults["cut"] += 1
            elif kind is not None and suffered > self._suffered:
                self.tally.faults[kind] += suffered - self._suffered
            self._suffered = suffered

    def _submit_on(self, faults: int, rng: Random) -> None:
        while self.tally.faults.total() < faults:
            self._submit(rng)

    def _submit(self, rng: Random) -> None:
        """The command makes a file of its own at each start: a second start shows."""
        script = f"f={self.marks}/$GOFER_RUN_ID; until mkdir $f.$n 2>/dev/null; do n=$((n+1)); done"
        argv = self.home.argv("submit", "-Q", "--no-code", "-t", self.target, "sh", "-c", f"n=1; {script}")
        process = subprocess.Popen(
            argv,
            cwd=self.home.folder,
            env=self.home.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            if rng.random() < _KILLED:
                time.sleep(rng.uniform(0.0, 2.0))
                os.kill(process.pid, signal.SIGKILL)
            out, err = process.communicate(timeout=_SUBMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            with self._lock:
                self.tally.wrong.append(f"a submission took longer than {_SUBMIT_S} s")
        with self._lock:
            self.tally.endings[str(process.returncode)] += 1
            self.tally.kills += process.returncode == -signal.SIGKILL
            self._printed += out.decode().split()
            if b"Traceback" in err:
                self.tally.wrong.append(f"a traceback: {err.decode()[-300:]}")

    def _settle(self) -> None:
        """Commands of a person who looks now and then; each may complete what was interrupted."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            if all(run["state"] in ("succeeded", "failed", "cancelled", "lost") for run in self._runs()):
                return
            time.sleep(1.0)
        open_runs = [run["id"] for run in self._runs() if run["ended_at"] is None]
        self.tally.wrong.append(f"not ended after {_SETTLE_S:g} s: {open_runs}")

    def _runs(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(
            self.home.gofer("list", "runs", "--all", "--json", status=None).out or "[]"
        )
        return found

    def _reckon(self) -> None:
        runs = {str(run["id"]): run for run in self._runs()}
        starts = Counter(path.name.rpartition(".")[0] for path in self.marks.iterdir())
        self.tally.recorded = len(runs)
        self.tally.ran = sum(starts[run_id] == 1 for run_id in runs)
        for run_id, run in runs.items():
            if starts[run_id] != 1 or run["state"] != "succeeded":
                self.tally.wrong.append(f"{run_id} is {run['state']} and was started {starts[run_id]} times")
        for run_id in starts.keys() - runs.keys():
            self.tally.wrong.append(f"{run_id} was started and is in no ledger")
        for run_id in set(self._printed) - runs.keys():
            self.tally.wrong.append(f"{run_id} was printed and is in no ledger")
