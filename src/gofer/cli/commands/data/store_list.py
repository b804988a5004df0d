"""`gofer store list`: where code, logs and data are kept."""

from __future__ import annotations

import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import has_colours
from gofer.cli.output.table import Column, render, screen_width
from gofer.ops.data.store_facts import store_rows
from gofer.ops.session import Session

_COLUMNS = [Column("NAME"), Column("URL", flexible=True), Column("OPENED BY"), Column("FROM", flexible=True)]


def run(**given: Any) -> int:
    """A line, or a JSON object, for every store."""
    with Session() as session:
        rows = store_rows(session)
    if given["as_json"]:
        print_json(rows)
        return 0
    cells = [[one["name"], one["url"], one["opened_by"], one["origin"]] for one in rows]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    return 0


command = Command(
    "list",
    run,
    [json_option()],
    help="List the stores: the address of each, and the kind of its credential. Asks no service.",
)
