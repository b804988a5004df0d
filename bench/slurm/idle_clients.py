"""What terminals that wait for runs ask of Slurm while nothing happens."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench import measure
from bench.errors import BenchError
from bench.figures import Bar, count_at_most, number
from bench.places import gofer_argv
from bench.report import Table
from bench.slurm.cluster import BenchCluster, GoferUser
from bench.slurm.tally import Call, summary

VERBS = (("wait",), ("wait",), ("logs", "-f"))
MOST_AN_HOUR = 120
# From every two seconds to every thirty, each time half as long again, and the first of thirty.
SETTLED_S = 95.0
_PATIENCE_S = 20


@dataclass(frozen=True)
class IdleCalls:
    """The calls while the interval grew, and those after; for how long each were counted."""

    settling: list[Call]
    settled: list[Call]
    settling_s: float
    settled_s: float

    @property
    def an_hour(self) -> float | None:
        """From the time between calls, since a few minutes hold only a few; None when there are not two."""
        if len(self.settled) < 2:
            return None
        return (len(self.settled) - 1) * 3600 / (self.settled[-1].at - self.settled[0].at)


def watch(cluster: BenchCluster) -> IdleCalls:
    """Blocks for `slurm_settle_s` and then `slurm_idle_s`; BenchError when a terminal ends by itself."""
    user = cluster.new_user()
    runs = [user.gofer("submit", "true").output.strip() for _ in VERBS]
    cluster.count()
    with ExitStack() as stack:
        terminals = [
            stack.enter_context(_terminal(user, [*verb, run])) for verb, run in zip(VERBS, runs, strict=True)
        ]
        _sit(terminals, cluster.plan.slurm_settle_s)
        settling = cluster.count()
        _sit(terminals, cluster.plan.slurm_idle_s)
        return IdleCalls(
            settling,
            cluster.count(),
            cluster.plan.slurm_settle_s,
            cluster.plan.slurm_idle_s,
        )


@contextmanager
def _terminal(user: GoferUser, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command that does not end, interrupted at the end of the block."""
    env = user.cluster.tally.environment(user.env)
    with measure.scratch_file() as out, measure.scratch_file() as err:
        process = measure.start([*gofer_argv(), *words], env, user.root / "project", out, err)
        try:
            yield process
            if process.poll() is not None:
                raise BenchError(f"`gofer {' '.join(words)}` ended: {measure.text(err).strip()[-200:]}")
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _sit(terminals: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and all(one.poll() is None for one in terminals):
        time.sleep(0.2)


def table(watched: IdleCalls) -> Table:
    rows = (
        (f"calls in the first {watched.settling_s:.0f} s", summary(watched.settling)),
        (f"calls in {watched.settled_s:.0f} s after that", summary(watched.settled)),
        ("calls an hour", "" if watched.an_hour is None else number(watched.an_hour)),
    )
    return Table(("", "measured"), rows, f"{len(VERBS)} terminals, nothing happens")


def bar(watched: IdleCalls | None) -> Bar:
    """Not judged when the count began before gofer had come to its longest interval."""
    promise = f"idle, {len(VERBS)} terminals: ≤ {MOST_AN_HOUR} Slurm calls an hour"
    is_settled = watched is not None and watched.settling_s >= SETTLED_S
    rate = watched.an_hour if watched is not None and is_settled else None
    return count_at_most(promise, MOST_AN_HOUR, rate, "calls an hour")
