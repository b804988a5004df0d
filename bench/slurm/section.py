"""Tables and bars of part (g)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.errors import BenchError
from bench.figures import Bar
from bench.plan import Plan
from bench.report import Section, Table
from bench.slurm import sending, standing, watching
from bench.slurm.ground import Ground, cluster

_METHOD = (
    "On a cluster of {version} with a controller, accounting and three nodes, all on this machine; a new one "
    "for each table. Every job is held, so nothing runs. Whole processes, Slurm's programs that they start "
    "included. One run: {submits} rounds in turn. The array: {arrays} rounds in turn (the loop one), and one "
    "more of each in which calls of sbatch, squeue, sacct, scontrol, scancel, sinfo and sacctmgr are "
    "counted, gofer's by a user whom the site has not seen before. How runs stand: {looks} rounds, the "
    "question asked twice in a row by new processes, gofer's and `squeue` in turn and submitit after them. "
    "Idle: two `gofer wait` and one `gofer logs -f`, counted for {idle:.0f} s after {settle:.0f} s in which "
    "gofer comes to ask more rarely; the rate is from the time between the first call and the last."
)


@dataclass
class _Found:
    """What came of the parts so far. `version` is as Slurm says it: `slurm-wlm 22.05.8`."""

    version: str = "Slurm"
    tables: list[Table] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def section(plan: Plan) -> Section:
    """Blocks for seven minutes at full size, most of them watching terminals that wait."""
    found = _Found()
    for name, part in _PARTS.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        try:
            with cluster(plan) as ground:
                found.version = ground.slurm("sbatch", "--version").output.strip()
                part(ground, found)
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
            looks=standing.ROUNDS,
            idle=plan.slurm_idle_s,
            settle=plan.slurm_settle_s,
        ),
        tuple(found.tables),
        tuple(found.bars),
        found.failures,
    )


def _overhead(ground: Ground, found: _Found) -> None:
    outcome = sending.overhead(ground)
    found.tables.append(sending.overhead_table(outcome))
    ours, theirs = (outcome.figure(name, lambda one: one.cpu_s) for name in (sending.GOFER, sending.SBATCH))
    found.bars.append(sending.overhead_bar(ours, theirs))
    found.failures.update(outcome.failures)


def _array(ground: Ground, found: _Found) -> None:
    array = sending.Array(ground)
    outcome = array.measure()
    found.tables.append(array.table(outcome))
    found.bars.append(array.bar())
    found.failures.update(outcome.failures)


def _standing(*, is_array: bool) -> Callable[[Ground, _Found], None]:
    def part(ground: Ground, found: _Found) -> None:
        stood = standing.standing(ground, is_array=is_array)
        found.tables.append(stood.table())
        found.bars.append(stood.bar())
        found.failures.update({f"{name}, {stood.title}": why for name, why in stood.outcome.failures.items()})

    return part


def _watching(ground: Ground, found: _Found) -> None:
    watched = watching.watch(ground)
    found.tables.append(watching.table(watched))
    found.bars.append(watching.bar(watched))


_PARTS: dict[str, Callable[[Ground, _Found], None]] = {
    "one run": _overhead,
    "an array": _array,
    "how an array stands": _standing(is_array=True),
    "how single runs stand": _standing(is_array=False),
    "idle": _watching,
}
