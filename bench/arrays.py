"""(c) A thousand runs of `true` through a queue on two cores: runs a second."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import family
from bench.errors import BenchError
from bench.family import Limits
from bench.figures import Bar, Figure, at_most, number
from bench.peers import TASK_SPOOLER
from bench.places import DRIVERS, gofer_argv
from bench.plan import Plan
from bench.report import Section, Table
from bench.rounds import Competitor, Outcome, interleave

GOFER = "gofer submit --each"
GOFER_MANY = "gofer, ten times the rows, 10 files of code"
HYPERQUEUE_MANY = "HyperQueue, ten times the rows"
SUBMITIT = "submitit LocalExecutor"
TSP = "task-spooler, as submitted"
TSP_QUEUED = "task-spooler, queued first"
HYPERQUEUE = "HyperQueue, output discarded"
HYPERQUEUE_FILES = "HyperQueue, output to files"
SPAWN = "posix_spawn alone"
CORES = 2
CODE_FILES = 10
# More in flight than cores, or its two interpreters a job leave the cores idle in turn.
SUBMITIT_WINDOW = 8


@dataclass(frozen=True)
class Throughput:
    """`run_s`: first start to last recorded end; `whole_s`: from asking to being told that all ended."""

    run_s: float
    whole_s: float
    cpu_s: float
    count: int


def section(plan: Plan) -> Section:
    """Blocks for `plan.array_rounds` rounds; submitit takes part in the first alone, being minutes long."""
    outcome = interleave(_competitors(plan), plan.array_rounds)
    each = outcome.figures(lambda sample: sample.run_s / sample.count)
    return Section(
        "c",
        f"An array of {plan.array_rows:,} x `true`",
        f"{plan.array_rounds} rounds in turn, one of submitit and of the cases of {plan.array_rows * 10:,} "
        f"rows; everything kept on {CORES} cores. Runs a "
        "second from the first start to the last recorded end, best and median round; seconds from asking "
        "to being told that all have ended; CPU of all processes, servers and the runs themselves "
        "included. `posix_spawn alone` is the same command started by a bare loop: the machine's limit.",
        (_table(outcome, each),),
        tuple(array_bars(each)),
        outcome.failures,
    )


def array_bars(each: Mapping[str, Figure]) -> list[Bar]:
    """Stated as times a run, so that «3 x ahead» is at most a third of the time."""
    ours = each.get(GOFER)
    return [
        _ahead(SUBMITIT, 3, ours, each.get(SUBMITIT)),
        _ahead(TSP, 3, ours, each.get(TSP)),
        _ahead(TSP_QUEUED, 3, ours, each.get(TSP_QUEUED)),
        _within(HYPERQUEUE, 2, ours, each.get(HYPERQUEUE)),
        _within(HYPERQUEUE_MANY, 2, each.get(GOFER_MANY), each.get(HYPERQUEUE_MANY)),
    ]


def _ahead(peer: str, times: float, ours: Figure | None, theirs: Figure | None) -> Bar:
    bar = at_most(f"runs/s ≥ {times} x {peer}", 1 / times, ours, theirs)
    return _as_rate(bar, ours, theirs)


def _within(peer: str, times: float, ours: Figure | None, theirs: Figure | None) -> Bar:
    bar = at_most(f"runs/s within {times} x of {peer}", times, ours, theirs)
    return _as_rate(bar, ours, theirs)


def _as_rate(bar: Bar, ours: Figure | None, theirs: Figure | None) -> Bar:
    if ours is None or theirs is None:
        return bar
    best, middle = theirs.minimum / ours.minimum, theirs.median / ours.median
    return Bar(bar.promise, f"{number(best)}x its rate (medians {number(middle)}x)", bar.met)


def _table(outcome: Outcome[Throughput], each: Mapping[str, Figure]) -> Table:
    rows = []
    for name, taken in outcome.samples.items():
        whole = Figure.of([sample.whole_s for sample in taken])
        cpu_ms = Figure.of([sample.cpu_s / sample.count * 1000 for sample in taken])
        rate = (number(1 / each[name].minimum), number(1 / each[name].median))
        rows.append((name, *rate, number(whole.minimum), number(cpu_ms.minimum), str(len(taken))))
    columns = ("", "runs/s best", "runs/s median", "ask to told s", "CPU ms a run", "rounds")
    return Table(columns, tuple(rows))


def _competitors(plan: Plan) -> list[Competitor[Throughput]]:
    rows, many = str(plan.array_rows), str(plan.array_rows * 10)
    peers = plan.peers

    def tsp(way: str) -> Callable[[Path], list[str]]:
        return lambda folder: [
            sys.executable, str(DRIVERS / "tsp_array.py"), peers.program(TASK_SPOOLER, "tsp"), rows, way
        ]  # fmt: skip

    def hyperqueue(output: str, count: str = rows) -> Callable[[Path], list[str]]:
        script = str(DRIVERS / "hyperqueue_array.py")
        return lambda folder: [peers.program("hyperqueue", "python"), script, count, str(folder), output]

    def submitit(folder: Path) -> list[str]:
        script = str(DRIVERS / "submitit_array.py")
        return [peers.program("submitit", "python"), script, rows, str(SUBMITIT_WINDOW), str(folder / "jobs")]

    return [
        Competitor(SPAWN, _family(plan, lambda _: [sys.executable, str(DRIVERS / "spawn_array.py"), rows])),
        Competitor(GOFER, _family(plan, lambda _: _gofer_argv(rows))),
        Competitor(GOFER_MANY, _family(plan, lambda _: _gofer_argv(many), files=CODE_FILES), most_rounds=1),
        Competitor(TSP, _family(plan, tsp("submitted"))),
        Competitor(TSP_QUEUED, _family(plan, tsp("queued"))),
        Competitor(HYPERQUEUE, _family(plan, hyperqueue("discard"))),
        Competitor(HYPERQUEUE_FILES, _family(plan, hyperqueue("files"))),
        Competitor(HYPERQUEUE_MANY, _family(plan, hyperqueue("discard", many)), most_rounds=1),
        Competitor(SUBMITIT, _family(plan, submitit), most_rounds=1),
    ]


def _gofer_argv(rows: str) -> list[str]:
    return [sys.executable, str(DRIVERS / "gofer_array.py"), rows, *gofer_argv()]


def _family(
    plan: Plan, argv_in: Callable[[Path], Sequence[str]], *, files: int = 0
) -> Callable[[], Throughput]:
    """One sample in a fresh folder, which is also gofer's home and tsp's socket folder; with that many files
    of code.
    """

    def attempt() -> Throughput:
        folder = plan.places.fresh("array")
        env = plan.places.gofer_environment(folder / "home")
        env.update(TS_SOCKET=str(folder / "socket"), TMPDIR=str(folder), TS_MAXFINISHED="2000")
        work = folder / "work"
        work.mkdir()
        for index in range(files):
            (work / f"module_{index}.py").write_text(f"VALUE = {index}\n" * 50)
        seen = family.run(argv_in(folder), env=env, cwd=work, limits=Limits(timeout_s=900, cores=CORES))
        return throughput(seen.output, seen.cpu_s)

    return attempt


def throughput(output: str, cpu_s: float) -> Throughput:
    """From what a driver printed: its last line is JSON, before it the competitor may have said anything."""
    lines = output.strip().splitlines()
    try:
        result = json.loads(lines[-1])
        return Throughput(float(result["run_s"]), float(result["whole_s"]), cpu_s, int(result["count"]))
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"the driver printed no result but {lines[-1:]}") from error
