"""Submissions under fire: an `sbatch` that fails in every way, and submitters that are killed at any moment.

`PYTHONPATH=tests python -m slurm.submission_drill --faults 500` on a cluster of its own. After the faults of
each run it is submitted once more, in peace. Lost is a run without a job then, doubled one with two.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from clusters.fixtures import running
from clusters.slurm import Slurm

REAL = "/usr/bin/sbatch"
SUBMIT = """
import sys
from gofer.remote.slurm import submission as sending
folder, run = sys.argv[1:3]
script = f"#!/bin/bash\\n#SBATCH --job-name={run} --output=/dev/null\\ntrue\\n"
print(sending.submit(folder, {"id": run, "rows": [], "store": None}, script, b"{}", float(sys.argv[3])))
"""
FAULTS = {
    "lost-before": "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1",
    "lost-after": f'{REAL} "$@" > /dev/null; echo "sbatch: error: Connection reset by peer" >&2; exit 1',
    "killed-before": "kill -9 $$",
    "killed-after": f'{REAL} "$@" > /dev/null; kill -9 $$',
    "submitter-killed-before": "kill -9 $PPID; exit 1",
    "submitter-killed-after": f'{REAL} "$@" > /dev/null; kill -9 $PPID; exit 1',
    "truncated": f'{REAL} "$@" | head -c 0; exit 0',
    "garbage": f'echo Welcome to the lab; {REAL} "$@" > /dev/null; exit 0',
    "late": f'(sleep 1; {REAL} "$@") > /dev/null 2>&1 & echo "sbatch: error: Socket timed out" >&2; exit 1',
    "hangs-before": "sleep 30",
    "hangs-after": f'{REAL} "$@" > /dev/null; sleep 30',
    "killed-at-random": f'exec {REAL} "$@"',
}


@dataclass
class Tally:
    """What was done and found."""

    faults: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    runs: int = 0


class Drill:
    """Rounds of one to three faults each, several rounds at once."""

    def __init__(self, slurm: Slurm, root: Path, seed: int) -> None:
        self._slurm = slurm
        self._root = root
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.tally = Tally()

    def run(self, faults: int, *, at_once: int, longest_s: float) -> Tally:
        """Until so many faults were injected, or the time is over."""
        deadline = time.monotonic() + longest_s

        def work() -> None:
            while self.tally.faults.total() < faults and time.monotonic() < deadline:
                self._round()

        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._count()
        return self.tally

    def _round(self) -> None:
        with self._lock:
            self.tally.runs += 1
            run = f"r261116-{self.tally.runs:06d}-drill"
            chosen = self._random.choices(list(FAULTS), k=self._random.choice((1, 1, 2, 3)))
            kill_after_s = self._random.uniform(0.05, 0.6)
        for name in chosen:
            self._submit(run, name, kill_after_s if name == "killed-at-random" else None)
            with self._lock:
                self.tally.faults[name] += 1
        self._submit(run, None, None)

    def _submit(self, run: str, fault: str | None, kill_after_s: float | None) -> None:
        place = self._root / "bin" / (fault or "none")
        if fault is not None and not place.exists():
            place.mkdir(parents=True, exist_ok=True)
            (place / "sbatch").write_text(f"#!/bin/bash\n{FAULTS[fault]}\n")
            (place / "sbatch").chmod(0o755)
        env = self._slurm.env
        env["PATH"] = f"{place}:{env['PATH']}" if fault else env["PATH"]
        argv = [sys.executable, "-c", SUBMIT, str(self._root / "far"), run, "2" if fault else "60"]
        process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            process.send_signal(signal.SIGKILL)
        _, complaints = process.communicate(timeout=110)
        if fault is None and process.returncode:
            raise RuntimeError(f"{run} could not be submitted in peace: {complaints.decode()}")

    def _count(self) -> None:
        """By the controller's own list of jobs that ended, which forgets nothing."""
        self._slurm.until(
            lambda: not self._slurm.call("squeue", "--noheader").strip(), "the end of all jobs", timeout_s=300
        )
        time.sleep(2.0)  # a job that a late `sbatch` sends
        output = (self._slurm.folder / "logs" / "jobs.txt").read_text()
        names = Counter(word[5:] for word in output.split() if word.startswith("Name="))
        for number in range(1, self.tally.runs + 1):
            run = f"r261116-{number:06d}-drill"
            if names[run] != 1:
                (self.tally.doubled if names[run] else self.tally.lost).append(run)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args()
    with running() as slurm:
        drill = Drill(slurm, slurm.folder / "drill", given.seed)
        tally = drill.run(given.faults, at_once=given.at_once, longest_s=given.minutes * 60)
    print(f"{tally.faults.total()} faults in {tally.runs} runs: {dict(tally.faults)}")
    print(f"lost {tally.lost}, doubled {tally.doubled}")
    return 1 if tally.lost or tally.doubled else 0


if __name__ == "__main__":
    sys.exit(main())
