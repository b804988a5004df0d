"""(a) What the command line costs before it does anything: CPU of start-up, `list runs` included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import fill, measure
from bench.errors import BenchError
from bench.figures import Bar, Figure, Ratio, at_most
from bench.measure import Sample
from bench.places import gofer_argv
from bench.plan import Plan
from bench.report import Section, Table, memory, pair
from bench.rounds import Competitor, Outcome, interleave

BARE = "python -c pass"
VERSION = "gofer version"
LIST = "gofer list runs"
QUERY = "gofer q RUN"
HELP = "gofer --help"
PEERS = {
    "torchx --help": ("torchx", "torchx"),
    "sky --help": ("skypilot", "sky"),
    "dstack --help": ("dstack", "dstack"),
}
LIMITS = {VERSION: 2, LIST: 8, QUERY: 8}


def section(plan: Plan) -> Section:
    """Blocks for `plan.start_rounds` rounds."""
    outcome = interleave(_competitors(plan), plan.start_rounds, warm_ups=2)
    cpu = outcome.figures(lambda sample: sample.cpu_s)
    return Section(
        "a",
        "Start-up",
        f"CPU (user + system) and wall clock of whole processes, {plan.start_rounds} rounds in turn, "
        f"bytecode compiled, {plan.ledger_runs:,} runs in gofer's ledger. Bare python is gofer's own "
        "interpreter.",
        (_table(outcome, cpu),),
        tuple(_bars(cpu, plan.ledger_runs)),
        outcome.failures,
    )


def _competitors(plan: Plan) -> list[Competitor[Sample]]:
    home = plan.places.fresh("gofer")
    gofer_env = plan.places.gofer_environment(home)
    env = plan.places.environment()
    made = {
        BARE: _command([sys.executable, "-c", "pass"], env, home),
        VERSION: _command([*gofer_argv(), "version"], gofer_env, home),
        LIST: _listing(gofer_env, home, plan.ledger_runs),
        QUERY: _query(plan),
        HELP: _command([*gofer_argv(), "--help"], gofer_env, home),
    }
    for name, (peer, program) in PEERS.items():
        made[name] = _peer_command(plan, peer, program, home)
    return [Competitor(name, attempt) for name, attempt in made.items()]


def _command(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Callable[[], Sample]:
    return lambda: measure.run(argv, env=env, cwd=cwd)


def _peer_command(plan: Plan, peer: str, program: str, cwd: Path) -> Callable[[], Sample]:
    env = plan.places.environment()
    return lambda: measure.run([plan.peers.program(peer, program), "--help"], env=env, cwd=cwd)


def _listing(env: Mapping[str, str], home: Path, runs: int) -> Callable[[], Sample]:
    """`list runs` over a ledger that is filled before the first, uncounted, round."""

    def attempt() -> Sample:
        if not filled:
            fill.fill(home, env, runs)
            filled.append(True)
        sample = measure.run([*gofer_argv(), "list", "runs"], env=env, cwd=home)
        if not sample.output.strip():
            raise BenchError("`gofer list runs` listed nothing")
        return sample

    filled: list[bool] = []
    return attempt


def _query(plan: Plan) -> Callable[[], Sample]:
    """`q` of a local run that is submitted, and has ended, before the first, uncounted, round."""
    home = plan.places.fresh("gofer-q")
    env = plan.places.gofer_environment(home)
    runs: list[str] = []

    def attempt() -> Sample:
        if not runs:
            done = measure.run([*gofer_argv(), "submit", "-Q", "--wait", "true"], env=env, cwd=home)
            runs.append(done.output.strip())
        return measure.run([*gofer_argv(), "q", runs[0]], env=env, cwd=home)

    return attempt


def _table(outcome: Outcome[Sample], cpu: Mapping[str, Figure]) -> Table:
    bare = cpu.get(BARE)
    floor = measure.own_rss_mib()
    rows = []
    for name, taken in outcome.samples.items():
        wall = Figure.of([sample.wall_s for sample in taken])
        rss = Figure.of([sample.rss_mib for sample in taken])
        times = "" if bare is None else f"{Ratio.of(cpu[name], bare).minimum:.2f}x"
        rows.append((f"`{name}`", *pair(cpu[name], 1000), times, *pair(wall, 1000), memory(rss, floor)))
    columns = (
        "",
        "CPU min ms",
        "CPU median ms",
        "to bare python",
        "wall min ms",
        "wall median ms",
        "peak MiB",
    )
    return Table(columns, tuple(rows))


def _bars(cpu: Mapping[str, Figure], runs: int) -> list[Bar]:
    bare = cpu.get(BARE)
    over = {LIST: f" over {runs:,} runs"}
    bars = [
        at_most(f"`{ours}`{over.get(ours, '')} ≤ {limit} x bare python, CPU", limit, cpu.get(ours), bare)
        for ours, limit in LIMITS.items()
    ]
    for ours in (VERSION, LIST):
        bars.extend(
            at_most(f"`{ours}` before `{name}`, CPU", 1, cpu.get(ours), cpu.get(name)) for name in PEERS
        )
    return bars
