"""`gofer list nodes`: the nodes of a target and what of them is free."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gofer.cli.options import Command, Option, json_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.cli.output.theme import has_colours
from gofer.errors import UnknownName
from gofer.ops.runs.target_views import nodes_of
from gofer.ops.session import Session
from gofer.text import did_you_mean, format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from gofer.backends.base import NodeFacts

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


def run(**given: Any) -> int:
    """A line, or a JSON object, for every node."""
    names = _columns(given["columns"]) if given["columns"] else tuple(_CELLS)
    with Session(target=given["target"]) as session:
        found = nodes_of(session, given["target"])
    if given["as_json"]:
        print_json([node._asdict() for node in found])
        return 0
    cells = {name: [_CELLS[name](node) for node in found] for name in names}
    # Columns that are empty in every row are hidden, unless the person named them.
    shown = [name for name in names if given["columns"] or any(cells[name])] or list(names)
    rows = list(zip(*(cells[name] for name in shown), strict=True))
    columns = [_column(name) for name in shown]
    sys.stdout.write(render(columns, rows, fit=screen_width(), colour=has_colours(sys.stdout)))
    if not found:
        print_message("the target has no nodes")
    return 0


def _free(free: int, total: int) -> str:
    return f"{free}/{total}" if total else ""


def _column(name: str) -> Column:
    title = _TITLES.get(name, name.upper())
    return Column(title, right=name in _NUMBERS, flexible=name in ("partitions", "detail"))


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in _CELLS:
            hint = did_you_mean(name, _CELLS) or f"the columns are {', '.join(_CELLS)}"
            raise UnknownName(f"`{name}` is not a column of nodes", hint=hint)
    if not names:
        raise UnknownName(f"`{text}` names no column", hint="write for example `--columns name,gpus`")
    return names


command = Command(
    "nodes",
    run,
    [
        target_option("The target whose nodes to list", default_text="the project's default target"),
        Option(
            "--columns",
            f"The columns to show, of {', '.join(_CELLS)}",
            default_text="all that have a value",
            metavar="NAME,…",
        ),
        json_option("Print a JSON array"),
    ],
    help="List the nodes of a target: their state, and how many of their GPUs and CPUs are free.",
)
