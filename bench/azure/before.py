"""What `gofer q` costs before it uses the network."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import measure
from bench.azure.workspace import SENT, TIMEOUT_S, BenchWorkspace
from bench.errors import BenchError
from bench.figures import Bar, Figure, number
from bench.places import DRIVERS
from bench.report import Table, pair
from bench.rounds import Competitor, Outcome, interleave

KEPT = "`gofer q`, the login kept from an earlier command"
NEW = "`gofer q`, no login kept"
MOST_S = 0.25


def before(workspace: BenchWorkspace, run: str) -> Outcome[float]:
    """CPU seconds until the first connection; blocks for all rounds."""

    def attempt(*, is_kept: bool) -> float:
        workspace.go_back(SENT, keeps_login=is_kept)
        report = workspace.root / "report"
        report.unlink(missing_ok=True)
        argv = [sys.executable, str(DRIVERS / "first_connect.py"), str(report), "q", run]
        measure.run(argv, env=workspace.env, cwd=workspace.root / "project", timeout_s=TIMEOUT_S)
        return _reported(report)

    return interleave(
        [
            Competitor(KEPT, lambda: attempt(is_kept=True)),
            Competitor(NEW, lambda: attempt(is_kept=False)),
        ],
        workspace.plan.azure_rounds,
        warm_ups=1,
    )


def _reported(report: Path) -> float:
    if not report.exists():
        raise BenchError("`gofer q` did not use the network")
    return float(report.read_text(encoding="ascii"))


def table(outcome: Outcome[float]) -> Table:
    rows = [(name, *pair(figure, 1000)) for name, figure in outcome.figures(lambda one: one).items()]
    return Table(("", "CPU min ms", "CPU median ms"), tuple(rows), "Before the network")


def bars(outcome: Outcome[float]) -> list[Bar]:
    """The same bar for both: a user with or without a kept login waits for the same command."""
    return [bar(name, outcome.figure(name, lambda one: one)) for name in (KEPT, NEW)]


def bar(name: str, figure: Figure | None) -> Bar:
    promise = f"{name}: CPU before the network ≤ {MOST_S:g} s"
    if figure is None:
        return Bar(promise, "not measured", None)
    value = f"{number(figure.minimum)} s (median {number(figure.median)} s)"
    return Bar(promise, value, figure.minimum <= MOST_S)
