"""What both do, in turn: submit, ask how one run stands, list the workspace's jobs, see the end of a log."""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.azure.ground import ENDED, SENT, Ground
from bench.errors import BenchError
from bench.figures import Bar, Figure, at_most, number
from bench.measure import Sample, own_rss_mib
from bench.report import Table, memory, pair
from bench.rounds import Competitor, Outcome, interleave

Way = Callable[[], Sample]
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
    "judged",
)
# The SDK's login, like gofer's and as it comes.
_KEPT, _NEW = "login kept, as it can be told to", "new login, as it comes"


@dataclass
class Deed:
    """One thing that clients did: like is judged with like, gofer's ways in `ours` against the SDK's in
    `theirs`; those in `besides` are shown.
    """

    title: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    besides: tuple[str, ...] = ()
    outcome: Outcome[Sample] = field(default_factory=Outcome)
    requests: dict[str, Counter[str]] = field(default_factory=dict)

    def bar(self) -> Bar:
        """gofer's costliest way against the SDK's cheapest, of those that are alike."""
        ours = [self._cpu(name) for name in self.ours]
        theirs = [found for name in self.theirs if (found := self._cpu(name))]
        worst = max((one for one in ours if one), key=lambda one: one.minimum) if all(ours) else None
        best = min(theirs, key=lambda one: one.minimum, default=None)
        promise = f"{self.title}: CPU ≤ 1/{TIMES} of azure-ai-ml's, logins kept"
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
            judged = "" if name in self.besides else "yes"
            rows.append((name, *pair(cpu), *pair(wall), memory(rss, own_rss_mib()), asked, times, judged))
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
    """Fills the workspace; the ids of two runs: one that has ended, and one that goes on, both with logs.

    gofer's states SENT and ENDED are remembered; the second also knows how the first run ended.
    """
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
    ended, going = (
        ground.gofer(
            "submit", "-Q", "--no-code", "sh", "-c", _PRINTS.format(lines=ground.plan.azure_lines, s=rest_s)
        ).output.strip()
        for rest_s in (0, 3600)
    )
    ground.remember(SENT)
    _until_shipped(ground, ended)
    _until_shown(ground, going)
    ground.gofer("wait", "-Q", "--timeout", f"{_WAIT_S:.0f}s", ended)
    ground.remember(ENDED)
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

    def ours() -> Sample:
        ground.edit("project", next(turns))
        return _said(ground.gofer("submit", "-Q", "python", "train.py", "--data", "voc20"))

    def theirs(keeps_login: bool) -> Sample:
        ground.edit("sdk", next(turns))
        return _said(ground.sdk("submit", str(ground.root / "sdk"), keeps_login=keeps_login))

    sdk = _both_logins("azure-ai-ml `create_or_update`", theirs)
    return _measured(ground, "submit", {"`gofer submit`": ours}, sdk)


def asking(ground: Ground, runs: dict[str, str]) -> Deed:
    """How a run stands, and its log's end; of a run that goes on the SDK shows it only by waiting."""

    def ours(run: str, state: str, *, keeps_login: bool = True) -> Way:
        def attempt() -> Sample:
            ground.go_back(state, keeps_login=keeps_login)
            shutil.rmtree(ground.root / "project" / "assets", ignore_errors=True)
            ground.service.requests()
            return _tailed(ground, ground.gofer("q", runs[run]))

        return attempt

    def theirs(keeps_login: bool) -> Sample:
        return _downloaded(ground, "show", runs["ended"], keeps_login=keeps_login)

    return _measured(
        ground,
        "one run: state and last 100 lines",
        {
            "`gofer q`, the run goes on": ours("going", SENT),
            "`gofer q`, the run has ended, not known before": ours("ended", SENT),
        },
        _both_logins("azure-ai-ml `get`, `download`", theirs),
        {
            "`gofer q`, the run has ended, known before": ours("ended", ENDED),
            "`gofer q`, the run goes on, new login": ours("going", SENT, keeps_login=False),
        },
    )


def listing(ground: Ground) -> Deed:
    most = str(ground.plan.azure_jobs)

    def counted(sample: Sample) -> Sample:
        shown = sample.output.count("old-")
        if shown < ground.plan.azure_jobs * 0.9:
            raise BenchError(f"it listed {shown:,} of {most} jobs")
        return sample

    def ours() -> Sample:
        return counted(ground.gofer("list", "jobs", "--server", "--max", most))

    def theirs(keeps_login: bool) -> Sample:
        return counted(ground.sdk("list", most, keeps_login=keeps_login))

    title = f"list {ground.plan.azure_jobs:,} jobs"
    sdk = _both_logins("azure-ai-ml `list`", theirs)
    return _measured(ground, title, {"`gofer list jobs --server`": ours}, sdk)


def tailing(ground: Ground, runs: dict[str, str]) -> Deed:
    """The log of a run that has ended. gofer reads it in its store, and asks the service nothing for it."""
    run = runs["ended"]

    def ours() -> Sample:
        ground.go_back(SENT)
        ground.service.requests()
        return _tailed(ground, ground.gofer("logs", "--tail", str(LINES), run))

    def theirs(keeps_login: bool) -> Sample:
        return _downloaded(ground, "tail", run, keeps_login=keeps_login)

    title = f"the last 100 of {ground.plan.azure_lines:,} lines of a log"
    sdk = _both_logins("azure-ai-ml `download`", theirs)
    return _measured(ground, title, {"`gofer logs --tail 100`": ours}, sdk)


def _said(sample: Sample) -> Sample:
    if not sample.output.strip():
        raise BenchError("it printed no name of a job")
    return sample


def _downloaded(ground: Ground, verb: str, run: str, *, keeps_login: bool) -> Sample:
    folder = str(ground.plan.places.fresh("download"))
    return _tailed(ground, ground.sdk(verb, run, folder, keeps_login=keeps_login))


def _tailed(ground: Ground, sample: Sample) -> Sample:
    last = f"line {ground.plan.azure_lines} of"
    if last not in sample.output or sample.output.count("\n") > LINES * 2:
        raise BenchError(f"it did not show the end of the log: {sample.output[-100:]!r}")
    return sample


def _both_logins(name: str, way: Callable[[bool], Sample]) -> dict[str, Way]:
    """The SDK's: with a login that it keeps, as gofer does, and as it comes."""
    return {f"{name}, {_KEPT}": lambda: way(True), f"{name}, {_NEW}": lambda: way(False)}


def _measured(
    ground: Ground,
    title: str,
    ours: Mapping[str, Way],
    sdk: Mapping[str, Way],
    besides: Mapping[str, Way] = MappingProxyType({}),
) -> Deed:
    """Blocks for all rounds; what each asked of the service is that of its last round.

    Of the SDK's ways the first is judged.
    """
    theirs, *shown = sdk
    deed = Deed(title, tuple(ours), (theirs,), (*shown, *besides))

    def counted(name: str, way: Way) -> Way:
        def attempt() -> Sample:
            ground.service.requests()
            sample = way()
            deed.requests[name] = ground.service.requests()
            return sample

        return attempt

    ways = {**ours, **sdk, **besides}
    competitors = [Competitor(name, counted(name, way)) for name, way in ways.items()]
    deed.outcome = interleave(competitors, ground.plan.azure_rounds, warm_ups=1)
    return deed
