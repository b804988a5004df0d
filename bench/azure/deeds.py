"""What both do, in turn: submit, ask how one run stands, list the workspace's jobs, see the end of a log."""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.azure.ground import Ground
from bench.errors import BenchError
from bench.figures import Bar, Figure, at_most, number
from bench.measure import Sample, own_rss_mib
from bench.report import Table, memory, pair
from bench.rounds import Competitor, Outcome, interleave

TIMES = 5
LINES = 100
_WAIT_S = 120.0
_LONG = "long"
# A run that says so much, and stays for a while.
_PRINTS = (
    "seq -f 'line %.0f of a log, with as many words in it as a line of a training log has' {lines}; sleep {s}"
)
_COLUMNS = (
    "",
    "CPU min s",
    "CPU median s",
    "wall min s",
    "wall median s",
    "peak MiB",
    "requests",
    "CPU to gofer's",
)


@dataclass
class Deed:
    """One thing that clients did: `ours` are all of gofer's ways, `theirs` all of the SDK's."""

    title: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    outcome: Outcome[Sample] = field(default_factory=Outcome)
    requests: dict[str, Counter[str]] = field(default_factory=dict)

    def bar(self) -> Bar:
        """gofer's costliest way against the SDK's cheapest."""
        ours = [self._cpu(name) for name in self.ours]
        theirs = [found for name in self.theirs if (found := self._cpu(name))]
        worst = max((one for one in ours if one), key=lambda one: one.minimum) if all(ours) else None
        best = min(theirs, key=lambda one: one.minimum, default=None)
        promise = f"{self.title}: CPU ≤ 1/{TIMES} of azure-ai-ml's"
        bar = at_most(promise, 1 / TIMES, worst, best)
        if worst is None or best is None:
            return bar
        value = (
            f"{number(best.minimum / worst.minimum)}x less (medians {number(best.median / worst.median)}x)"
        )
        return Bar(promise, value, bar.met)

    def table(self) -> Table:
        base = self._cpu(self.ours[0])
        rows = []
        for name, taken in self.outcome.samples.items():
            wall, cpu, rss = (
                Figure.of([getattr(one, quantity) for one in taken])
                for quantity in ("wall_s", "cpu_s", "rss_mib")
            )
            times = f"{cpu.minimum / base.minimum:.2f}x" if base else ""
            asked = str(self.requests[name].total())
            rows.append((name, *pair(cpu), *pair(wall), memory(rss, own_rss_mib()), asked, times))
        return Table(_COLUMNS, tuple(rows), self.title)

    def notes(self) -> list[str]:
        """Which requests each made."""
        said = []
        for name, asked in self.requests.items():
            told = ", ".join(f"{count} x `{route}`" for route, count in sorted(asked.items()))
            said.append(f"{self.title}, {name}: {told or 'none'}")
        return said

    def _cpu(self, name: str) -> Figure | None:
        return self.outcome.figure(name, lambda sample: sample.cpu_s)


def prepare(ground: Ground) -> dict[str, str]:
    """Fills the workspace; the ids of two runs: one that has ended, and one that goes on, both with logs."""
    jobs = [
        {
            "name": f"old-{index:05}",
            "experiment": "bench",
            "display_name": "train",
            "command": "python train.py",
        }
        for index in range(ground.plan.azure_jobs)
    ]
    for start in range(0, len(jobs), 200):
        ground.service.ask("POST", "/jobs", {"jobs": jobs[start : start + 200]})
    long = _PRINTS.format(lines=ground.plan.azure_lines, s=0)
    ended = ground.gofer("submit", "-Q", "--no-code", "sh", "-c", long).output.strip()
    ground.gofer("wait", "-Q", "--timeout", f"{_WAIT_S:.0f}s", ended)
    alive = _PRINTS.format(lines=ground.plan.azure_lines, s=3600)
    going = ground.gofer("submit", "-Q", "--no-code", "sh", "-c", alive).output.strip()
    _until_shown(ground, going)
    _until_shipped(ground, ended)
    # From here on nothing starts: what is measured has the machine for itself.
    ground.service.ask("POST", "/hold", {"held": True})
    return {"ended": ended, "going": going}


def _until_shown(ground: Ground, run: str) -> None:
    """Its log has come to the store, to the last line."""
    deadline = time.monotonic() + _WAIT_S
    last = f"line {ground.plan.azure_lines} of"
    while last not in ground.gofer("logs", "--tail", "1", run).output:
        if time.monotonic() > deadline:
            raise BenchError(f"the log of {run} did not come within {_WAIT_S:.0f} s")
        time.sleep(1)


def _until_shipped(ground: Ground, run: str) -> None:
    """The service itself says that it has ended, its own logs with it."""
    deadline = time.monotonic() + _WAIT_S
    while ground.service.ask("GET", f"/jobs/{run}")["status"] != "Completed":
        if time.monotonic() > deadline:
            raise BenchError(f"the service did not end {run} within {_WAIT_S:.0f} s")
        time.sleep(0.5)


def submitting(ground: Ground) -> Deed:
    """A folder of eleven small files, one of them changed since the last time; one command."""
    turns = itertools.count()
    deed = Deed("submit", ("`gofer submit`",), ("azure-ai-ml `create_or_update`",))

    def ours() -> Sample:
        ground.edit("project", next(turns))
        return _said(ground.gofer("submit", "-Q", "python", "train.py", "--data", "voc20"))

    def theirs() -> Sample:
        ground.edit("sdk", next(turns))
        return _said(ground.sdk("submit", str(ground.root / "sdk")))

    return _measured(ground, deed, [ours, theirs])


def asking(ground: Ground, runs: dict[str, str]) -> Deed:
    """How a run stands, and its log's end; of a run that goes on the SDK shows it only by waiting."""
    names = ("`gofer q`, the run goes on", "`gofer q`, the run has ended")
    deed = Deed("one run: state and last 100 lines", names, ("azure-ai-ml `get`, `download`",))

    def ours(run: str) -> Callable[[], Sample]:
        def attempt() -> Sample:
            ground.forget()
            shutil.rmtree(ground.root / "project" / "assets", ignore_errors=True)
            ground.service.requests()
            return _tailed(ground, ground.gofer("q", run))

        return attempt

    ways = [
        ours(runs["going"]),
        ours(runs["ended"]),
        lambda: _downloaded(ground, "show", runs["ended"]),
    ]
    return _measured(ground, deed, ways)


def listing(ground: Ground) -> Deed:
    most = str(ground.plan.azure_jobs)
    deed = Deed(
        f"list {ground.plan.azure_jobs:,} jobs", ("`gofer list jobs --server`",), ("azure-ai-ml `list`",)
    )

    def counted(sample: Sample) -> Sample:
        shown = sample.output.count("old-")
        if shown < ground.plan.azure_jobs * 0.9:
            raise BenchError(f"it listed {shown:,} of {most} jobs")
        return sample

    return _measured(
        ground,
        deed,
        [
            lambda: counted(ground.gofer("list", "jobs", "--server", "--max", most)),
            lambda: counted(ground.sdk("list", most)),
        ],
    )


def tailing(ground: Ground, runs: dict[str, str]) -> Deed:
    """The log of a run that has ended."""
    run, lines = runs["ended"], ground.plan.azure_lines
    deed = Deed(
        f"the last 100 of {lines:,} lines of a log",
        ("`gofer logs --tail 100`",),
        ("azure-ai-ml `download`",),
    )

    return _measured(
        ground,
        deed,
        [
            lambda: _tailed(ground, ground.gofer("logs", "--tail", str(LINES), run)),
            lambda: _downloaded(ground, "tail", run),
        ],
    )


def _said(sample: Sample) -> Sample:
    if not sample.output.strip():
        raise BenchError("it printed no name of a job")
    return sample


def _downloaded(ground: Ground, verb: str, run: str) -> Sample:
    return _tailed(ground, ground.sdk(verb, run, str(ground.plan.places.fresh("download"))))


def _tailed(ground: Ground, sample: Sample) -> Sample:
    last = f"line {ground.plan.azure_lines} of"
    if last not in sample.output or sample.output.count("\n") > LINES * 2:
        raise BenchError(f"it did not show the end of the log: {sample.output[-100:]!r}")
    return sample


def _measured(ground: Ground, deed: Deed, ways: list[Callable[[], Sample]]) -> Deed:
    """Blocks for all rounds; what each asked of the service is that of its last round."""

    def counted(name: str, way: Callable[[], Sample]) -> Callable[[], Sample]:
        def attempt() -> Sample:
            ground.service.requests()
            sample = way()
            deed.requests[name] = ground.service.requests()
            return sample

        return attempt

    names = [*deed.ours, *deed.theirs]
    competitors = [Competitor(name, counted(name, way)) for name, way in zip(names, ways, strict=True)]
    deed.outcome = interleave(competitors, ground.plan.azure_rounds, warm_ups=1)
    return deed
