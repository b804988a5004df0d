"""What both do, in turn: submit, ask how one run stands, list the workspace's jobs, see the end of a log."""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.azure.workspace import ENDED, SENT, BenchWorkspace
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
# A run that prints many lines and then sleeps.
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
class Operation:
    """One thing that clients did: like is judged with like, gofer's ways in `ours` against the SDK's in
    `theirs`; those in `also_shown` are shown.
    """

    title: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    also_shown: tuple[str, ...] = ()
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
            judged = "" if name in self.also_shown else "yes"
            rows.append((name, *pair(cpu), *pair(wall), memory(rss, own_rss_mib()), asked, times, judged))
        return Table(_COLUMNS, tuple(rows), self.title)

    def notes(self) -> list[str]:
        """Which requests each made."""
        lines = []
        for name, asked in self.requests.items():
            requests_text = ", ".join(f"{count} x `{route}`" for route, count in sorted(asked.items()))
            lines.append(f"{self.title}, {name}: {requests_text or 'none'}")
        return lines

    def _cpu(self, name: str) -> Figure | None:
        return self.outcome.figure(name, lambda sample: sample.cpu_s)


def prepare(workspace: BenchWorkspace) -> dict[str, str]:
    """Fills the workspace. Returns the ids of two runs with logs: one that has ended and one that runs.

    gofer's states SENT and ENDED are remembered; the second also knows how the first run ended.
    """
    jobs = [
        {
            "name": f"old-{index:05}",
            "experiment": "bench",
            "display_name": "train",
            "command": "python train.py",
        }
        for index in range(workspace.plan.azure_jobs)
    ]
    for start in range(0, len(jobs), 200):
        workspace.service.ask("POST", "/jobs", {"jobs": jobs[start : start + 200]})
    ended, going = (
        workspace.gofer(
            "submit",
            "-Q",
            "--no-code",
            "sh",
            "-c",
            _PRINTS.format(lines=workspace.plan.azure_lines, s=rest_s),
        ).output.strip()
        for rest_s in (0, 3600)
    )
    workspace.remember(SENT)
    _until_shipped(workspace, ended)
    _until_shown(workspace, going)
    workspace.gofer("wait", "-Q", "--timeout", f"{_WAIT_S:.0f}s", ended)
    workspace.remember(ENDED)
    # From here on nothing starts: what is measured has the machine for itself.
    workspace.service.ask("POST", "/hold", {"held": True})
    return {"ended": ended, "going": going}


def _until_shown(workspace: BenchWorkspace, run: str) -> None:
    """Its log has come to the store, to the last line."""
    deadline = time.monotonic() + _WAIT_S
    last = f"line {workspace.plan.azure_lines} of"
    while last not in workspace.gofer("logs", "--tail", "1", run).output:
        if time.monotonic() > deadline:
            raise BenchError(f"the log of {run} did not come within {_WAIT_S:.0f} s")
        time.sleep(1)


def _until_shipped(workspace: BenchWorkspace, run: str) -> None:
    """The service itself says that it has ended, its own logs with it."""
    deadline = time.monotonic() + _WAIT_S
    while workspace.service.ask("GET", f"/jobs/{run}")["status"] != "Completed":
        if time.monotonic() > deadline:
            raise BenchError(f"the service did not end {run} within {_WAIT_S:.0f} s")
        time.sleep(0.5)


def submitting(workspace: BenchWorkspace) -> Operation:
    """A folder of eleven small files, one of them changed since the last time; one command."""
    turns = itertools.count()

    def ours() -> Sample:
        workspace.edit("project", next(turns))
        return _with_output(workspace.gofer("submit", "-Q", "python", "train.py", "--data", "voc20"))

    def theirs(keeps_login: bool) -> Sample:
        workspace.edit("sdk", next(turns))
        return _with_output(workspace.sdk("submit", str(workspace.root / "sdk"), keeps_login=keeps_login))

    sdk = _both_logins("azure-ai-ml `create_or_update`", theirs)
    return _measured(workspace, "submit", {"`gofer submit`": ours}, sdk)


def asking(workspace: BenchWorkspace, runs: dict[str, str]) -> Operation:
    """The state of a run and the end of its log. For a running run the SDK shows the log only by waiting."""

    def ours(run: str, state: str, *, keeps_login: bool = True) -> Way:
        def attempt() -> Sample:
            workspace.go_back(state, keeps_login=keeps_login)
            shutil.rmtree(workspace.root / "project" / "assets", ignore_errors=True)
            workspace.service.requests()
            return _tailed(workspace, workspace.gofer("q", runs[run]))

        return attempt

    def theirs(keeps_login: bool) -> Sample:
        return _downloaded(workspace, "show", runs["ended"], keeps_login=keeps_login)

    return _measured(
        workspace,
        "one run: state and last 100 lines",
        {
            "`gofer q`, the run is running": ours("going", SENT),
            "`gofer q`, the run has ended, not known before": ours("ended", SENT),
        },
        _both_logins("azure-ai-ml `get`, `download`", theirs),
        {
            "`gofer q`, the run has ended, known before": ours("ended", ENDED),
            "`gofer q`, the run is running, new login": ours("going", SENT, keeps_login=False),
        },
    )


def listing(workspace: BenchWorkspace) -> Operation:
    most = str(workspace.plan.azure_jobs)

    def counted(sample: Sample) -> Sample:
        shown = sample.output.count("old-")
        if shown < workspace.plan.azure_jobs * 0.9:
            raise BenchError(f"it listed {shown:,} of {most} jobs")
        return sample

    def ours() -> Sample:
        return counted(workspace.gofer("list", "jobs", "--server", "--max", most))

    def theirs(keeps_login: bool) -> Sample:
        return counted(workspace.sdk("list", most, keeps_login=keeps_login))

    title = f"list {workspace.plan.azure_jobs:,} jobs"
    sdk = _both_logins("azure-ai-ml `list`", theirs)
    return _measured(workspace, title, {"`gofer list jobs --server`": ours}, sdk)


def tailing(workspace: BenchWorkspace, runs: dict[str, str]) -> Operation:
    """The log of a run that has ended. gofer reads it in its store, and asks the service nothing for it."""
    run = runs["ended"]

    def ours() -> Sample:
        workspace.go_back(SENT)
        workspace.service.requests()
        return _tailed(workspace, workspace.gofer("logs", "--tail", str(LINES), run))

    def theirs(keeps_login: bool) -> Sample:
        return _downloaded(workspace, "tail", run, keeps_login=keeps_login)

    title = f"the last 100 of {workspace.plan.azure_lines:,} lines of a log"
    sdk = _both_logins("azure-ai-ml `download`", theirs)
    return _measured(workspace, title, {"`gofer logs --tail 100`": ours}, sdk)


def _with_output(sample: Sample) -> Sample:
    if not sample.output.strip():
        raise BenchError("it printed no name of a job")
    return sample


def _downloaded(workspace: BenchWorkspace, verb: str, run: str, *, keeps_login: bool) -> Sample:
    folder = str(workspace.plan.places.fresh("download"))
    return _tailed(workspace, workspace.sdk(verb, run, folder, keeps_login=keeps_login))


def _tailed(workspace: BenchWorkspace, sample: Sample) -> Sample:
    last = f"line {workspace.plan.azure_lines} of"
    if last not in sample.output or sample.output.count("\n") > LINES * 2:
        raise BenchError(f"it did not show the end of the log: {sample.output[-100:]!r}")
    return sample


def _both_logins(name: str, way: Callable[[bool], Sample]) -> dict[str, Way]:
    """The SDK's: with a login that it keeps, as gofer does, and as it comes."""
    return {f"{name}, {_KEPT}": lambda: way(True), f"{name}, {_NEW}": lambda: way(False)}


def _measured(
    workspace: BenchWorkspace,
    title: str,
    ours: Mapping[str, Way],
    sdk: Mapping[str, Way],
    also_shown: Mapping[str, Way] = MappingProxyType({}),
) -> Operation:
    """Blocks for all rounds; what each asked of the service is that of its last round.

    Of the SDK's ways the first is judged.
    """
    theirs, *shown = sdk
    operation = Operation(title, tuple(ours), (theirs,), (*shown, *also_shown))

    def counted(name: str, way: Way) -> Way:
        def attempt() -> Sample:
            workspace.service.requests()
            sample = way()
            operation.requests[name] = workspace.service.requests()
            return sample

        return attempt

    ways = {**ours, **sdk, **also_shown}
    competitors = [Competitor(name, counted(name, way)) for name, way in ways.items()]
    operation.outcome = interleave(competitors, workspace.plan.azure_rounds, warm_ups=1)
    return operation
