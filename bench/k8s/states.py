"""How many runs stand: `gofer list runs` beside `kubectl get jobs`, which both ask the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.errors import BenchError
from bench.figures import Bar, Figure, count_at_most, number
from bench.k8s.cluster import BenchKubernetes, Calls
from bench.measure import Sample
from bench.report import Table
from bench.rounds import Competitor, Outcome, interleave

GOFER, KUBECTL = "`gofer list runs --all`", "`kubectl get jobs`"
ROUNDS = 3
MOST_CALLS = 1
MOST_CPU_S = 0.15
# An answer is fresh to gofer for some seconds.
_STALE_S = 8.0

Looks = Outcome[tuple[Sample, Calls]]


def measure(cluster: BenchKubernetes) -> tuple[Table, list[Bar], dict[str, str]]:
    """Blocks while `k8s_runs` runs are submitted, one command each, and then looked at."""
    count = cluster.plan.k8s_runs
    user = cluster.new_user("held")
    for _ in range(count):
        user.submit("true")

    def gofer() -> Sample:
        time.sleep(_STALE_S)
        sample = user.gofer("list", "runs", "--all")
        if sample.output.count("queued") < count:
            raise BenchError(f"it said of fewer than {count:,} runs that they are queued")
        return sample

    def counted(agent: str, act: Callable[[], Sample]) -> Callable[[], tuple[Sample, Calls]]:
        def attempt() -> tuple[Sample, Calls]:
            before = cluster.counts(agent)
            sample = act()
            return sample, cluster.counts(agent).since(before)

        return attempt

    gofer_label = "--selector=app.kubernetes.io/managed-by=gofer"
    outcome = interleave(
        [
            Competitor(GOFER, counted("gofer", gofer)),
            Competitor(KUBECTL, counted("kubectl", lambda: cluster.kubectl("get", "jobs", gofer_label))),
        ],
        ROUNDS,
        warm_ups=1,
    )
    cluster.empty()
    return _table(outcome, count), _bars(outcome, count), dict(outcome.failures)


def _table(outcome: Looks, count: int) -> Table:
    rows = []
    for name, looks in outcome.samples.items():
        wall = Figure.of([sample.wall_s for sample, _ in looks])
        cpu = Figure.of([sample.cpu_s for sample, _ in looks])
        calls = max(calls.requests for _, calls in looks)
        cells = [number(cell * 1000) for cell in (wall.minimum, wall.median, cpu.minimum)]
        rows.append((name, str(calls), *cells))
    columns = ("", "requests", "wall min ms", "wall median ms", "CPU min ms")
    return Table(columns, tuple(rows), f"How {count:,} runs stand")


def _bars(outcome: Looks, count: int) -> list[Bar]:
    looks = outcome.samples.get(GOFER, [])
    most = max((calls.requests for _, calls in looks), default=None)
    cpu = min((sample.cpu_s for sample, _ in looks), default=None)
    promise = f"how {count:,} runs stand: CPU ≤ {MOST_CPU_S:g} s"
    value = Bar(promise, "not measured", None)
    if cpu is not None:
        value = Bar(promise, f"{number(cpu)} s", cpu <= MOST_CPU_S)
    return [
        count_at_most(f"how {count:,} runs stand: {MOST_CALLS} request", MOST_CALLS, most, "requests"),
        value,
    ]
