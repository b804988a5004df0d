"""Tables and bars of part (h)."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench.azure import before, deeds
from bench.azure.deeds import Deed
from bench.azure.ground import Ground, workspace
from bench.errors import BenchError
from bench.figures import Bar
from bench.plan import Plan
from bench.report import Section, Table

_METHOD = (
    "On a workspace of gofer's simulator with {jobs:,} jobs, its blobs in Azurite, all over TLS on this "
    "machine. Whole processes, {rounds} rounds in turn after one that is thrown away; CPU is the client's "
    "own, user and system, children included; memory its peak. Both have the login they keep: gofer its "
    "tokens of an earlier command, the SDK none, since it keeps none for a service principal. Each "
    "submission takes a folder of eleven small files along, one of which is new. Logs have {lines:,} "
    "lines. Each `gofer q` begins with the state after the submission, so that it asks the service every "
    "time. Requests are those of the last round to the service and its login; those for blobs are not "
    "counted. Before the network: the CPU time when the interpreter's audit hook hears of the first "
    "connection."
)


def section(plan: Plan) -> Section:
    """Blocks for some ten minutes at full size."""
    tables: list[Table] = []
    bars: list[Bar] = []
    failures: dict[str, str] = {}
    notes: list[str] = []
    try:
        with workspace(plan) as ground:
            _measure(ground, tables, bars, failures, notes)
    except BenchError as error:
        failures["gofer and azure-ai-ml"] = str(error)
    method = _METHOD.format(jobs=plan.azure_jobs, rounds=plan.azure_rounds, lines=plan.azure_lines)
    return Section("h", "A client of Azure ML", method, tuple(tables), tuple(bars), failures, tuple(notes))


def _measure(
    ground: Ground, tables: list[Table], bars: list[Bar], failures: dict[str, str], notes: list[str]
) -> None:
    runs = deeds.prepare(ground)
    ground.remember()
    parts: list[Callable[[], Deed]] = [
        lambda: deeds.asking(ground, runs),
        lambda: deeds.tailing(ground, runs),
        lambda: deeds.listing(ground),
        lambda: deeds.submitting(ground),
    ]
    early = before.before(ground, runs["going"])
    for part in parts:
        deed = part()
        print(f"  {deed.title}", file=sys.stderr, flush=True)
        tables.append(deed.table())
        bars.append(deed.bar())
        notes += deed.notes()
        failures.update({f"{name}, {deed.title}": why for name, why in deed.outcome.failures.items()})
    tables.append(before.table(early))
    bars.append(before.bar(early.figure(before.KEPT, lambda one: one)))
    failures.update(early.failures)
