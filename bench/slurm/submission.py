"""One run, and an array: `gofer submit` beside `sbatch` and submitit."""

from __future__ import annotations

from bench.errors import BenchError
from bench.figures import Bar, Figure, count_at_most, number
from bench.measure import Sample
from bench.report import Table, pair
from bench.rounds import Competitor, Outcome, interleave
from bench.slurm.cluster import BenchCluster, GoferUser
from bench.slurm.tally import Call, summary

SBATCH, GOFER = "`sbatch --wrap true`", "`gofer submit true`"
GOFER_ARRAY, SUBMITIT_ARRAY = "`gofer submit --each`", "submitit `map_array`"
MOST_OVER_S = 0.15
MOST_CALLS = 3
_HELD = "sbatch --parsable --hold --output=/dev/null --wrap true"


def overhead(cluster: BenchCluster) -> Outcome[Sample]:
    """Blocks for `submit_rounds` rounds of one run each. Nobody counts calls here."""
    user = cluster.new_user()
    return interleave(
        [
            Competitor(SBATCH, lambda: _alone(cluster, cluster.slurm(*_HELD.split()))),
            Competitor(GOFER, lambda: _alone(cluster, user.gofer("submit", "true"))),
        ],
        cluster.plan.submit_rounds,
        warm_ups=1,
    )


def _alone(cluster: BenchCluster, sample: Sample) -> Sample:
    cluster.empty()
    return sample


def overhead_table(outcome: Outcome[Sample]) -> Table:
    wall, cpu = outcome.figures(lambda one: one.wall_s), outcome.figures(lambda one: one.cpu_s)
    rows = [(name, *pair(wall[name], 1000), *pair(cpu[name], 1000)) for name in wall]
    columns = ("", "wall min ms", "wall median ms", "CPU min ms", "CPU median ms")
    return Table(columns, tuple(rows), "One run")


def overhead_bar(ours: Figure | None, theirs: Figure | None) -> Bar:
    """On the minima, as bars are."""
    promise = f"one run: CPU ≤ `sbatch` + {MOST_OVER_S * 1000:.0f} ms"
    if ours is None or theirs is None:
        return Bar(promise, "a side was not measured", None)
    over_s = ours.minimum - theirs.minimum
    medians_ms = (ours.median - theirs.median) * 1000
    value = f"+ {number(over_s * 1000)} ms (medians + {number(medians_ms)} ms)"
    return Bar(promise, value, over_s <= MOST_OVER_S)


class Array:
    """`array_rows` rows. Rounds are timed with Slurm's own programs; one more of each is counted."""

    def __init__(self, cluster: BenchCluster) -> None:
        self.cluster = cluster
        self.rows = cluster.plan.array_rows
        self.loop = f"{self.rows:,} x `sbatch`"
        self.calls: dict[str, list[Call]] = {}
        self._user = cluster.new_user()

    def measure(self) -> Outcome[Sample]:
        """Blocks; the loop of `sbatch`, being long, has one round."""
        return interleave(
            [
                Competitor(GOFER_ARRAY, lambda: self._turn(GOFER_ARRAY)),
                Competitor(SUBMITIT_ARRAY, lambda: self._turn(SUBMITIT_ARRAY)),
                Competitor(self.loop, lambda: self._turn(self.loop), most_rounds=1),
            ],
            self.cluster.plan.array_rounds,
        )

    def _turn(self, name: str) -> Sample:
        if name not in self.calls:
            self.cluster.count()
            # A user's first submission to a site asks it the most.
            self._take(name, self.cluster.new_user(), is_counted=True)
            self.calls[name] = self.cluster.count()
        return self._take(name, self._user, is_counted=False)

    def _take(self, name: str, user: GoferUser, *, is_counted: bool) -> Sample:
        cluster = self.cluster
        if name == GOFER_ARRAY:
            values = ",".join(map(str, range(self.rows)))
            sample = user.gofer("submit", "--each", f"i={values}", "true", is_counted=is_counted)
        elif name == SUBMITIT_ARRAY:
            folder = str(cluster.plan.places.fresh("submitit"))
            sample = cluster.submitit("map", str(self.rows), folder, is_counted=is_counted)
        else:
            loop = f"for i in $(seq {self.rows}); do {_HELD} || exit 1; done"
            sample = cluster.slurm("sh", "-c", loop, is_counted=is_counted)
        waiting = len(cluster.slurm("squeue", "--array", "--noheader").output.splitlines())
        cluster.empty()
        if waiting != self.rows:
            raise BenchError(f"{waiting:,} jobs of {self.rows:,} were in the queue")
        return sample

    def table(self, outcome: Outcome[Sample]) -> Table:
        rows = []
        for name, samples in outcome.samples.items():
            wall = Figure.of([one.wall_s for one in samples])
            cpu = Figure.of([one.cpu_s for one in samples])
            calls = summary(self.calls[name])
            rows.append((name, *pair(wall), *pair(cpu), calls, str(len(samples))))
        columns = ("", "wall min s", "wall median s", "CPU min s", "CPU median s", "Slurm calls", "rounds")
        return Table(columns, tuple(rows), f"An array of {self.rows:,} rows")

    def bar(self) -> Bar:
        taken = self.calls.get(GOFER_ARRAY)
        promise = f"an array of {self.rows:,} rows: ≤ {MOST_CALLS} Slurm calls"
        return count_at_most(promise, MOST_CALLS, None if taken is None else len(taken), "calls")
