"""Tables and bars of part (i)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.errors import BenchError
from bench.figures import Bar
from bench.k8s import latencies, states, submission
from bench.k8s.cluster import BenchKubernetes, start_cluster
from bench.plan import Plan
from bench.report import Section, Table

_METHOD = (
    "On a Kubernetes of three nodes, all on this machine; a new one for each table. Whole processes, in "
    "turn; CPU is the client's own, children included. Requests are those in the audit log of the API "
    "server, by the name of the client. One run: {submits} rounds after one that is thrown away; no "
    "scheduler takes the pods. torchx and Kubeflow's SDK submit objects of their own kinds, which nobody "
    "works on. How runs stand: {looks} rounds, gofer's answers not fresh. First instruction: from the start "
    "of the client to the first line of a Python command, the image present, {rounds} rounds. A line of a "
    "log: the median of a log of twenty lines. A shell: a command in the pod of a running run, to its end."
)


@dataclass
class _Results:
    tables: list[Table] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def section(plan: Plan) -> Section:
    """Blocks for half an hour at full size, most of it submissions."""
    found = _Results()
    for name, part in _PARTS.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        try:
            with start_cluster(plan) as cluster:
                part(cluster, found)
        except BenchError as error:
            found.failures[f"gofer, {name}"] = str(error)
            found.bars.append(Bar(name, "not measured", None))
    method = _METHOD.format(submits=plan.submit_rounds, looks=states.ROUNDS, rounds=plan.k8s_rounds)
    title = "A client of Kubernetes"
    return Section("i", title, method, tuple(found.tables), tuple(found.bars), found.failures)


def _submission(cluster: BenchKubernetes, found: _Results) -> None:
    measured = submission.measure(cluster)
    found.tables.append(measured.table())
    found.bars += measured.bars()
    found.failures.update(measured.outcome.failures)


def _states(cluster: BenchKubernetes, found: _Results) -> None:
    table, bars, failures = states.measure(cluster)
    found.tables.append(table)
    found.bars += bars
    found.failures.update(failures)


def _latencies(cluster: BenchKubernetes, found: _Results) -> None:
    first = latencies.first_instruction(cluster)
    line, shell = latencies.log_line(cluster), latencies.shell(cluster)
    titles = {"The first instruction": first, "A line of a log": line, "A command in the pod": shell}
    for title, outcome in titles.items():
        found.tables.append(latencies.table(title, outcome))
        found.failures.update({f"{name}, {title}": why for name, why in outcome.failures.items()})
    found.bars += [
        latencies.bar("first instruction ≤ a bare Job + 0.7 s", 0.7, first),
        latencies.plain_bar("a line of a log ≤ 2.5 s after it was printed", 2.5, line),
        latencies.bar("a command in the pod ≤ `kubectl exec` + 0.1 s", 0.1, shell),
    ]


_PARTS: dict[str, Callable[[BenchKubernetes, _Results], None]] = {
    "one run": _submission,
    "how runs stand": _states,
    "what a person waits for": _latencies,
}
