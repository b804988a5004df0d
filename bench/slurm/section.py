"""Tables and bars of part (g)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.errors import BenchError
from bench.figures import Bar
from bench.plan import Plan
from bench.report import Section, Table
from bench.slurm import idle_clients, queue_states, submission
from bench.slurm.cluster import BenchCluster, start_cluster

_METHOD = (
    "On a cluster of {version} with a controller, accounting and three nodes, all on this machine; a new one "
    "for each table. Every job is held, so nothing runs. Whole processes, Slurm's programs that they start "
    "included. One run: {submits} rounds in turn. The array: {arrays} rounds in turn (the loop one), and one "
    "more of each in which calls of sbatch, squeue, sacct, scontrol, scancel, sinfo and sacctmgr are "
    "counted, gofer's by a new user of the site. How runs stand: {looks} rounds, the "
    "question asked twice in a row by new processes, gofer's and `squeue` in turn and submitit after them. "
    "Idle: two `gofer wait` and one `gofer logs -f`, counted for {idle:.0f} s after {settle:.0f} s in which "
    "gofer comes to ask more rarely; the rate is from the time between the first call and the last."
)


@dataclass
class _Results:
    """The results so far. `version` is Slurm's own text: `slurm-wlm 22.05.8`."""

    version: str = "Slurm"
    tables: list[Table] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def section(plan: Plan) -> Section:
    """Blocks for seven minutes at full size, most of them watching terminals that wait."""
    found = _Results()
    for name, part in _PARTS.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        try:
            with start_cluster(plan) as cluster:
                found.version = cluster.slurm("sbatch", "--version").output.strip()
                part(cluster, found)
        except BenchError as error:
            found.failures[f"gofer, {name}"] = str(error)
            found.bars.append(Bar(name, "not measured", None))
    return Section(
        "g",
        "A client of Slurm",
        _METHOD.format(
            version=found.version,
            submits=plan.submit_rounds,
            arrays=plan.array_rounds,
            pairs=queue_states.ROUNDS,
            idle=plan.slurm_idle_s,
            settle=plan.slurm_settle_s,
        ),
        tuple(found.tables),
        tuple(found.bars),
        found.failures,
    )


def _overhead(cluster: BenchCluster, found: _Results) -> None:
    outcome = submission.overhead(cluster)
    found.tables.append(submission.overhead_table(outcome))
    ours, theirs = (
        outcome.figure(name, lambda one: one.cpu_s) for name in (submission.GOFER, submission.SBATCH)
    )
    found.bars.append(submission.overhead_bar(ours, theirs))
    found.failures.update(outcome.failures)


def _array(cluster: BenchCluster, found: _Results) -> None:
    array = submission.Array(cluster)
    outcome = array.measure()
    found.tables.append(array.table(outcome))
    found.bars.append(array.bar())
    found.failures.update(outcome.failures)


def _listing(*, is_array: bool) -> Callable[[BenchCluster, _Results], None]:
    def part(cluster: BenchCluster, found: _Results) -> None:
        stood = queue_states.measure(cluster, is_array=is_array)
        found.tables.append(stood.table())
        found.bars.append(stood.bar())
        found.failures.update({f"{name}, {stood.title}": why for name, why in stood.outcome.failures.items()})

    return part


def _idle_clients(cluster: BenchCluster, found: _Results) -> None:
    watched = idle_clients.watch(cluster)
    found.tables.append(idle_clients.table(watched))
    found.bars.append(idle_clients.bar(watched))


_PARTS: dict[str, Callable[[BenchCluster, _Results], None]] = {
    "one run": _overhead,
    "an array": _array,
    "how an array stands": _listing(is_array=True),
    "how single runs stand": _listing(is_array=False),
    "idle": _idle_clients,
}
