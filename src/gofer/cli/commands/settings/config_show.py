"""`gofer config show`: every setting, its value and its origin."""

from __future__ import annotations

import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import has_colours, print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.config.show import rows
from gofer.ops.session import Session


def run(**given: Any) -> int:
    """A table, or JSON. Values that are secret are masked."""
    with Session() as session:
        shown = rows(session.settings)
        warnings = session.settings.warnings
    if given["as_json"]:
        print_json([one._asdict() for one in shown])
    else:
        columns = [Column("KEY"), Column("VALUE", flexible=True), Column("FROM", flexible=True)]
        table = [one._replace(value=_one_line(one.value)) for one in shown]
        sys.stdout.write(render(columns, table, fit=screen_width(), colour=has_colours(sys.stdout)))
    for warning in warnings:
        print_message(f"warning: {warning}")
    return 0


def _one_line(text: str) -> str:
    """A long text as one line: its first line, and the number of lines."""
    lines = text.splitlines()
    return text if len(lines) < 2 else f"{lines[0]} … ({len(lines)} lines)"


command = Command(
    "show",
    run,
    [json_option()],
    help="Show every setting, its value and where it comes from: a file and line, a variable, or built in.",
)
