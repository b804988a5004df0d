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
from bench.slurm.ground import GoferUser, Ground

GOFER, SQUEUE, SUBMITIT = "`gofer list runs`", "`squeue --array`", "submitit `job.state`"
ROUNDS = 3
MOST_CALLS = 1
_MARGIN_S = 0.5


@dataclass(frozen=True)
class Look:
    """Two of the same question, the second at once after the first."""

    fresh: Sample
    fresh_calls: int
    again: Sample
    again_calls: int


@dataclass(frozen=True)
class Standing:
    """All looks at one number of runs."""

    title: str
    outcome: Outcome[Look]

    def table(self) -> Table:
        rows = []
        for name, looks in self.outcome.samples.items():
            fresh = Figure.of([look.fresh.wall_s for look in looks])
            again = Figure.of([look.again.wall_s for look in looks])
            cpu = Figure.of([look.fresh.cpu_s for look in looks])
            cells = (fresh.minimum, fresh.median, cpu.minimum, again.minimum, again.median)
            ms = [number(cell * 1000) for cell in cells]
            calls = (max(look.fresh_calls for look in looks), max(look.again_calls for look in looks))
            rows.append((name, str(calls[0]), *ms[:3], str(calls[1]), *ms[3:]))
        columns = ("", "calls", "wall min ms", "wall median ms", "CPU min ms")
        columns_again = ("calls, again", "wall min ms, again", "wall median ms, again")
        return Table((*columns, *columns_again), tuple(rows), f"How {self.title} stand")

    def bar(self) -> Bar:
        """The most that a look ever took, both of its questions together."""
        looks = self.outcome.samples.get(GOFER, [])
        most = max((look.fresh_calls + look.again_calls for look in looks), default=None)
        return count_at_most(f"how {self.title} stand: {MOST_CALLS} Slurm call", MOST_CALLS, most, "calls")


def standing(ground: Ground, *, is_array: bool) -> Standing:
    """Blocks while the runs are submitted and looked at, gofer's and submitit's one after the other."""
    count = ground.plan.array_rows if is_array else ground.plan.slurm_singles
    user = ground.new_user()
    _submit(user, count, is_array=is_array)
    outcome = interleave(
        [Competitor(GOFER, _patient(user)), Competitor(SQUEUE, lambda: _look(ground, _squeue(ground)))],
        ROUNDS,
    )
    if (queued := user.queued()) != count:
        outcome.failures[GOFER] = f"it said of {queued:,} runs of {count:,} that they are queued"
        outcome.samples.pop(GOFER, None)
    ground.empty()
    theirs = interleave([Competitor(SUBMITIT, _submitit(ground, count, is_array=is_array))], ROUNDS)
    outcome.samples.update(theirs.samples)
    outcome.failures.update(theirs.failures)
    return Standing(f"{count:,} {'rows of an array' if is_array else 'single runs'}", outcome)


def _submit(user: GoferUser, count: int, *, is_array: bool) -> None:
    if is_array:
        user.gofer("submit", "--each", f"i={','.join(map(str, range(count)))}", "true")
        return
    for _ in range(count):
        user.gofer("submit", "true")


def _squeue(ground: Ground) -> Callable[[], Sample]:
    return lambda: ground.slurm("squeue", "--array", "--noheader", "--user=root", is_counted=True)


def _patient(user: GoferUser) -> Callable[[], Look]:
    """An answer is fresh to gofer for two seconds, and half as long again each time that nothing changed."""
    waits_s = iter([0.0, *(2.0 * 1.5**turn + _MARGIN_S for turn in range(ROUNDS))])

    def attempt() -> Look:
        time.sleep(next(waits_s))
        return _look(user.ground, lambda: user.gofer("list", "runs", "--all", is_counted=True))

    return attempt


def _submitit(ground: Ground, count: int, *, is_array: bool) -> Callable[[], Look]:
    folder = str(ground.plan.places.fresh("submitit"))

    def ask() -> Sample:
        sample = ground.submitit("state", folder, is_counted=True)
        if (found := json.loads(sample.output)) != {"PENDING": count}:
            raise BenchError(f"it said of {count:,} jobs that wait: {found}")
        return sample

    def attempt() -> Look:
        if not is_sent:
            ground.submitit("map" if is_array else "submit", str(count), folder)
            is_sent.append(True)
            # Accounting hears of new jobs a little later.
            time.sleep(5)
        return _look(ground, ask)

    is_sent: list[bool] = []
    return attempt


def _look(ground: Ground, ask: Callable[[], Sample]) -> Look:
    ground.count()
    fresh = ask()
    fresh_calls = len(ground.count())
    again = ask()
    return Look(fresh, fresh_calls, again, len(ground.count()))
