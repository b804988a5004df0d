"""How runs stand: `gofer list runs` beside `squeue` and submitit, asked twice in a row by new processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.errors import BenchError
from bench.figures import Bar, Figure, count_at_most, number
from bench.measure import Sample
from bench.report import Table
from bench.rounds import Competitor, Outcome, interleave
from bench.slurm.cluster import BenchCluster, GoferUser

GOFER, SQUEUE, SUBMITIT = "`gofer list runs`", "`squeue --array`", "submitit `job.state`"
ROUNDS = 3
MOST_CALLS = 1
_MARGIN_S = 0.5


@dataclass(frozen=True)
class QuestionPair:
    """Two of the same question, the second at once after the first."""

    fresh: Sample
    fresh_calls: int
    again: Sample
    again_calls: int


@dataclass(frozen=True)
class ListingResult:
    """All looks at one number of runs."""

    title: str
    outcome: Outcome[QuestionPair]

    def table(self) -> Table:
        rows = []
        for name, pairs in self.outcome.samples.items():
            fresh = Figure.of([look.fresh.wall_s for look in pairs])
            again = Figure.of([look.again.wall_s for look in pairs])
            cpu = Figure.of([look.fresh.cpu_s for look in pairs])
            cells = (fresh.minimum, fresh.median, cpu.minimum, again.minimum, again.median)
            ms = [number(cell * 1000) for cell in cells]
            calls = (max(look.fresh_calls for look in pairs), max(look.again_calls for look in pairs))
            rows.append((name, str(calls[0]), *ms[:3], str(calls[1]), *ms[3:]))
        columns = ("", "calls", "wall min ms", "wall median ms", "CPU min ms")
        columns_again = ("calls, again", "wall min ms, again", "wall median ms, again")
        return Table((*columns, *columns_again), tuple(rows), f"How {self.title} stand")

    def bar(self) -> Bar:
        """The most that a look ever took, both of its questions together."""
        pairs = self.outcome.samples.get(GOFER, [])
        most = max((look.fresh_calls + look.again_calls for look in pairs), default=None)
        return count_at_most(f"how {self.title} stand: {MOST_CALLS} Slurm call", MOST_CALLS, most, "calls")


def measure(cluster: BenchCluster, *, is_array: bool) -> ListingResult:
    """Blocks while the runs are submitted and looked at, gofer's and submitit's one after the other."""
    count = cluster.plan.array_rows if is_array else cluster.plan.slurm_singles
    user = cluster.new_user()
    _submit(user, count, is_array=is_array)
    outcome = interleave(
        [
            Competitor(GOFER, _patient(user)),
            Competitor(SQUEUE, lambda: _ask_twice(cluster, _squeue(cluster))),
        ],
        ROUNDS,
    )
    if (queued := user.queued()) != count:
        outcome.failures[GOFER] = f"it said of {queued:,} runs of {count:,} that they are queued"
        outcome.samples.pop(GOFER, None)
    cluster.empty()
    theirs = interleave([Competitor(SUBMITIT, _submitit(cluster, count, is_array=is_array))], ROUNDS)
    outcome.samples.update(theirs.samples)
    outcome.failures.update(theirs.failures)
    return ListingResult(f"{count:,} {'rows of an array' if is_array else 'single runs'}", outcome)


def _submit(user: GoferUser, count: int, *, is_array: bool) -> None:
    if is_array:
        user.gofer("submit", "--each", f"i={','.join(map(str, range(count)))}", "true")
        return
    for _ in range(count):
        user.gofer("submit", "true")


def _squeue(cluster: BenchCluster) -> Callable[[], Sample]:
    return lambda: cluster.slurm("squeue", "--array", "--noheader", "--user=root", is_counted=True)


def _patient(user: GoferUser) -> Callable[[], QuestionPair]:
    """An answer is fresh to gofer for two seconds, and half as long again each time that nothing changed."""
    waits_s = iter([0.0, *(2.0 * 1.5**turn + _MARGIN_S for turn in range(ROUNDS))])

    def attempt() -> QuestionPair:
        time.sleep(next(waits_s))
        return _ask_twice(user.cluster, lambda: user.gofer("list", "runs", "--all", is_counted=True))

    return attempt


def _submitit(cluster: BenchCluster, count: int, *, is_array: bool) -> Callable[[], QuestionPair]:
    folder = str(cluster.plan.places.fresh("submitit"))

    def ask() -> Sample:
        sample = cluster.submitit("state", folder, is_counted=True)
        if (found := json.loads(sample.output)) != {"PENDING": count}:
            raise BenchError(f"it said of {count:,} jobs that wait: {found}")
        return sample

    def attempt() -> QuestionPair:
        if not is_sent:
            cluster.submitit("map" if is_array else "submit", str(count), folder)
            is_sent.append(True)
            # Accounting hears of new jobs a little later.
            time.sleep(5)
        return _ask_twice(cluster, ask)

    is_sent: list[bool] = []
    return attempt


def _ask_twice(cluster: BenchCluster, ask: Callable[[], Sample]) -> QuestionPair:
    cluster.count()
    fresh = ask()
    fresh_calls = len(cluster.count())
    again = ask()
    return QuestionPair(fresh, fresh_calls, again, len(cluster.count()))
