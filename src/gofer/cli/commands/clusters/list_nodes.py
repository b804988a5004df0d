"""`gofer list nodes`: the nodes of a target and what of them is free, or the nodes of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar, Unpack

from gofer.cli.options import Command, Option, json_option, run_argument, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.cli.output.theme import has_colours
from gofer.errors import UnknownName
from gofer.ops.runs.find import find, targets_meant
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.node_reports import RunNode, nodes_of_run
from gofer.ops.runs.target_views import nodes_of, nodes_of_group
from gofer.ops.session import Session
from gofer.text import did_you_mean, format_local_time, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from gofer.backends.base import NodeFacts

    N = TypeVar("N", NodeFacts, RunNode, "_GroupNode")

_CELLS: dict[str, Callable[[NodeFacts], str]] = {
    "name": lambda node: node.name,
    "state": lambda node: node.state,
    "gpus": lambda node: _free(node.gpus_free, node.gpus),
    "type": lambda node: node.gpu_type,
    "cpus": lambda node: _free(node.cpus_free, node.cpus),
    "memory": lambda node: format_size(node.memory_mib << 20) if node.memory_mib else "",
    "partitions": lambda node: ",".join(node.partitions),
    "detail": lambda node: node.detail,
}
_NUMBERS = ("gpus", "cpus", "memory")
_TITLES = {"gpus": "FREE GPUS", "cpus": "FREE CPUS"}


_RUN_CELLS: dict[str, Callable[[RunNode], str]] = {
    "node": lambda node: str(node.node),
    "host": lambda node: node.host,
    "state": lambda node: node.state.value,
    "ranks": lambda node: _numbers(node.ranks),
    "gpus": lambda node: _numbers(node.gpu_numbers) or str(node.gpus or ""),
    "started": lambda node: format_local_time(node.started_at) if node.started_at else "",
    "ended": lambda node: format_local_time(node.ended_at) if node.ended_at else "",
    "detail": lambda node: node.detail,
}


class _GroupNode(NamedTuple):
    """A node of one of several targets."""

    target: str
    facts: NodeFacts


def _of_facts(cell: Callable[[NodeFacts], str]) -> Callable[[_GroupNode], str]:
    return lambda one: cell(one.facts)


_GROUP_CELLS: dict[str, Callable[[_GroupNode], str]] = {
    "target": lambda one: one.target,
    **{name: _of_facts(cell) for name, cell in _CELLS.items()},
}


class _Options(TypedDict):
    run: str | None
    target: str | None
    columns: str | None
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """A line, or a JSON object, for every node."""
    with Session(target=given["target"]) as session:
        if given["run"]:
            (row,) = refresh_runs(session, [find(session, given["run"], target=given["target"])])
            return _print_nodes(nodes_of_run(session, row), _RUN_CELLS, given, {})
        targets = targets_meant(session, given["target"])
        if len(targets) > 1:
            return _print_nodes(_of_group(session, targets), _GROUP_CELLS, given, _TITLES)
        nodes = nodes_of(session, targets[0] if targets else None)
    status = _print_nodes(nodes, _CELLS, given, _TITLES)
    if not nodes and not given["as_json"]:
        print_message("the target has no nodes")
    return status


def _of_group(session: Session, targets: Sequence[str]) -> list[_GroupNode]:
    return [_GroupNode(name, node) for name, node in nodes_of_group(session, targets)]


def _print_nodes(
    found: Sequence[N],
    all_cells: dict[str, Callable[[N], str]],
    given: _Options,
    titles: dict[str, str],
) -> int:
    names = _columns(given["columns"], all_cells) if given["columns"] else tuple(all_cells)
    if given["as_json"]:
        print_json([_plain(node) for node in found])
        return 0
    cells = {name: [all_cells[name](node) for node in found] for name in names}
    # Columns that are empty in every row are hidden, unless the person named them.
    shown = [name for name in names if given["columns"] or any(cells[name])] or list(names)
    rows = list(zip(*(cells[name] for name in shown), strict=True))
    columns = [_column(name, titles.get(name, name.upper())) for name in shown]
    sys.stdout.write(render(columns, rows, fit=screen_width(), colour=has_colours(sys.stdout)))
    return 0


def _plain(node: NodeFacts | RunNode | _GroupNode) -> dict[str, object]:
    """The node as plain JSON values; times in RFC 3339."""
    if isinstance(node, _GroupNode):
        return {"target": node.target, **_plain(node.facts)}
    facts: dict[str, object] = node._asdict()
    if isinstance(node, RunNode):
        facts.update(started_at=format_time(node.started_at), ended_at=format_time(node.ended_at))
    return facts


def _numbers(numbers: Sequence[int]) -> str:
    """`0-3,6`: numbers in a row as a range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _free(free: int, total: int) -> str:
    return f"{free}/{total}" if total else ""


def _column(name: str, title: str) -> Column:
    return Column(
        title, right=name in _NUMBERS, flexible=name in ("partitions", "detail"), coloured=name == "state"
    )


def _columns(text: str, known: Collection[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"the columns are {', '.join(known)}"
            raise UnknownName(f"`{name}` is not a column of nodes", hint=hint)
    if not names:
        raise UnknownName(f"`{text}` names no column", hint="write for example `--columns name,gpus`")
    return names


command = Command(
    "nodes",
    run,
    [
        run_argument(required=False),
        target_option(
            "The target or group of targets whose nodes to list", default_text="the project's default target"
        ),
        Option(
            "--columns",
            f"The columns to show, of {', '.join(_CELLS)}; of a run {', '.join(_RUN_CELLS)}",
            default_text="all that have a value",
            metavar="NAME,…",
        ),
        json_option("Print a JSON array"),
    ],
    help="List the nodes of a target: their state, and how many of their GPUs and CPUs are free.\n\n"
    "With RUN, list the nodes of the last attempt of a run: their hosts, states, ranks and GPUs, when the "
    "ranks of a node started and ended, and why the node failed.",
)
