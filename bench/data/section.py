"""Tables and bars of part (f)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench import measure
from bench.data.azurite import azurite
from bench.data.clients import AZCOPY_CLIENT, CLIENTS, GOFER
from bench.data.place import Service
from bench.data.sink import MANY, sink
from bench.data.transfers import DOWN, RESYNC, UP, Serve, TransferRound, listers, movers
from bench.data.workload import SMALL, Workload, make_large, make_small
from bench.errors import BenchError
from bench.figures import Bar, Figure, at_most, count_at_most
from bench.measure import Sample
from bench.plan import Plan
from bench.report import Section, Table, memory, pair
from bench.rounds import Outcome, interleave

CPU_LIMIT = 0.6
MEMORY_LIMIT_MIB = 150
LIST = "list"
_COLUMNS = ("", "wall min s", "wall median s", "CPU min s", "CPU median s", "peak MiB", "wall to gofer's")
_METHOD = (
    "Whole processes, {rounds} rounds in turn (the SDK, which takes minutes, one): in each a client sends "
    "the files, does so again with nothing changed, and fetches them into an empty folder, where they are "
    "compared byte for byte. On Azurite, a fresh one on disk for every turn, the wall clock is mostly the "
    "server's; the sink is nginx that discards what it is sent and serves files from the page cache. For "
    "the listing it serves prepared pages of 5,000, since Azurite takes too long to fill. CPU is the "
    "client's own, user and system; memory its peak. A bar on wall clock compares with the fastest peer of "
    "its line."
)


@dataclass(frozen=True)
class Line:
    """One thing that all clients did on one server: who took how much."""

    title: str
    samples: Mapping[str, list[Sample]]
    is_small: bool

    def figure(self, client: str, quantity: str) -> Figure | None:
        """`quantity` is a field of Sample; None when the client was not measured."""
        taken = self.samples.get(client)
        return Figure.of([getattr(sample, quantity) for sample in taken]) if taken else None


def section(plan: Plan) -> Section:
    """Blocks for a quarter of an hour at full size."""
    root = plan.places.fresh("work")
    works = [make_small(root, plan.data_files), make_large(root, plan.data_bytes)]
    lines: list[Line] = []
    failures: dict[str, str] = {}
    try:
        for work in works:
            lines += _moved(plan, work, "Azurite", lambda: azurite(plan), failures)
        with sink(plan, works) as service:
            for work in works:
                lines += _moved(plan, work, "sink", lambda: _same(service), failures)
            lines.append(_listed(plan, service, failures))
    except BenchError as error:
        failures["gofer and its peers"] = str(error)
    return Section(
        "f",
        f"Moving {plan.data_files:,} files of 4 to 64 KiB, and one of {plan.data_bytes >> 20:,} MiB",
        _METHOD.format(rounds=plan.data_rounds),
        tuple(_table(line) for line in lines),
        (*(bar for line in lines for bar in bars(line)), memory_bar(lines)),
        failures,
    )


def _moved(plan: Plan, work: Workload, server: str, serve: Serve, failures: dict[str, str]) -> list[Line]:
    outcome = interleave(movers(plan, work, serve), plan.data_rounds)
    _note(failures, f"{server}, {work.name}", outcome)
    what = f"{work.files:,} files" if work.name == SMALL else f"{work.size >> 20:,} MiB"
    return [
        Line(f"{server}: {what}, {deed}", _of(outcome, deed), work.name == SMALL)
        for deed in (UP, DOWN, RESYNC)
    ]


def _of(outcome: Outcome[TransferRound], deed: str) -> dict[str, list[Sample]]:
    found = {
        name: [turn.samples[deed] for turn in turns if deed in turn.samples]
        for name, turns in outcome.samples.items()
    }
    return {name: samples for name, samples in found.items() if samples}


def _listed(plan: Plan, service: Service, failures: dict[str, str]) -> Line:
    outcome = interleave(listers(plan, service, MANY), plan.data_rounds)
    _note(failures, f"sink, {LIST}", outcome)
    return Line(f"sink: {LIST} {plan.data_listed:,} objects", outcome.samples, is_small=False)


def _note(failures: dict[str, str], where: str, outcome: Outcome[TransferRound] | Outcome[Sample]) -> None:
    failures.update({f"{name}, {where}": why for name, why in outcome.failures.items()})


@contextmanager
def _same(service: Service) -> Iterator[Service]:
    yield service


def _table(line: Line) -> Table:
    floor = measure.own_rss_mib()
    ours = line.figure(GOFER.name, "wall_s")
    rows = []
    for name in line.samples:
        wall, cpu, rss = (line.figure(name, quantity) for quantity in ("wall_s", "cpu_s", "rss_mib"))
        assert wall and cpu and rss  # there are samples of this client
        times = f"{wall.minimum / ours.minimum:.2f}x" if ours else ""
        rows.append((name, *pair(wall), *pair(cpu), memory(rss, floor), times))
    return Table(_COLUMNS, tuple(rows), line.title)


def bars(line: Line) -> list[Bar]:
    """As fast as the fastest peer; for small files on their way also the CPU beside azcopy's."""
    found = [_wall_bar(line)]
    if line.is_small:
        ours, theirs = (line.figure(client.name, "cpu_s") for client in (GOFER, AZCOPY_CLIENT))
        found.append(at_most(f"{line.title}: ≤ {CPU_LIMIT} x azcopy's CPU", CPU_LIMIT, ours, theirs))
    return found


def memory_bar(lines: Sequence[Line]) -> Bar:
    """The most that gofer ever took."""
    taken = [sample.rss_mib for line in lines for sample in line.samples.get(GOFER.name, ())]
    promise = f"gofer's memory, whatever it does: ≤ {MEMORY_LIMIT_MIB} MiB"
    return count_at_most(promise, MEMORY_LIMIT_MIB, max(taken, default=None), "MiB")


def _wall_bar(line: Line) -> Bar:
    peers = {
        client.name: figure
        for client in CLIENTS
        if client is not GOFER and (figure := line.figure(client.name, "wall_s"))
    }
    best = min(peers, key=lambda name: peers[name].minimum, default=None)
    promise = f"{line.title}: no slower than the fastest peer{f', {best}' if best else ''}"
    return at_most(promise, 1, line.figure(GOFER.name, "wall_s"), peers[best] if best else None)
