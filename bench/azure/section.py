"""Tables and bars of part (h)."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench.azure import before, operations
from bench.azure.operations import Operation
from bench.azure.workspace import BenchWorkspace, start_workspace
from bench.errors import BenchError
from bench.figures import Bar
from bench.plan import Plan
from bench.report import Section, Table

_METHOD = (
    "On a workspace of gofer's simulator with {jobs:,} jobs, its blobs in Azurite, all over TLS on this "
    "machine. Whole processes, {rounds} rounds in turn after one that is thrown away; CPU is the client's "
    "own, user and system, children included; memory its peak. gofer keeps its login between commands by "
    "itself. The SDK signs in again in each process, unless a script tells it to keep its tokens in a file; "
    "both are shown. Like is judged with like, each with the login of an earlier process; rows that are not "
    "judged say what differs. Each submission takes a folder of eleven small files along, one of which is "
    "new. Logs have {lines:,} lines. What is judged of `gofer q` begins with gofer's state after the "
    "submission, when it has heard of no start and no end, so that it asks the service how the run stands, "
    "as the SDK does; where it had heard of the end before, that is a row of its own. `gofer logs` begins "
    "with the same state; it reads the log in gofer's store, where the SDK asks the service. Requests are "
    "those of the last round to the service and its login; those for blobs are not counted. Before the "
    "network: the CPU time when the interpreter's audit hook hears of the first connection; the promise is "
    "for a kept login and for a new one."
)


def section(plan: Plan) -> Section:
    """Blocks for some ten minutes at full size."""
    tables: list[Table] = []
    bars: list[Bar] = []
    failures: dict[str, str] = {}
    notes: list[str] = []
    try:
        with start_workspace(plan) as workspace:
            _measure(workspace, tables, bars, failures, notes)
    except BenchError as error:
        failures["gofer and azure-ai-ml"] = str(error)
    method = _METHOD.format(jobs=plan.azure_jobs, rounds=plan.azure_rounds, lines=plan.azure_lines)
    return Section("h", "A client of Azure ML", method, tuple(tables), tuple(bars), failures, tuple(notes))


def _measure(
    workspace: BenchWorkspace,
    tables: list[Table],
    bars: list[Bar],
    failures: dict[str, str],
    notes: list[str],
) -> None:
    runs = operations.prepare(workspace)
    parts: list[Callable[[], Operation]] = [
        lambda: operations.asking(workspace, runs),
        lambda: operations.tailing(workspace, runs),
        lambda: operations.listing(workspace),
        lambda: operations.submitting(workspace),
    ]
    early = before.before(workspace, runs["going"])
    for part in parts:
        operation = part()
        print(f"  {operation.title}", file=sys.stderr, flush=True)
        tables.append(operation.table())
        bars.append(operation.bar())
        notes += operation.notes()
        failures.update(
            {f"{name}, {operation.title}": why for name, why in operation.outcome.failures.items()}
        )
    tables.append(before.table(early))
    bars += before.bars(early)
    failures.update(early.failures)
