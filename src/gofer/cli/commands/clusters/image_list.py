"""`gofer image list`: the images under `dockers:` and their wrapped ones."""

from __future__ import annotations

import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.table import Column, render, screen_width
from gofer.ops.images.wrap import image_rows
from gofer.ops.session import Session

_COLUMNS = [
    Column("NAME"),
    Column("IMAGE", flexible=True),
    Column("WRAPPED", flexible=True),
    Column("USED BY"),
]


def run(**given: Any) -> int:
    """A table, or JSON; empty when no file has images."""
    with Session() as session:
        rows = image_rows(session)
    if given["as_json"]:
        print_json(rows)
        return 0
    cells = [[str(row["name"]), str(row["image"]), _wrapped(row), _names(row["used_by"])] for row in rows]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width()))
    return 0


def _wrapped(row: dict[str, object]) -> str:
    if row["wrapped"]:
        return f"{row['wrapped']}{'' if row['is_pushed'] else ' (not pushed)'}"
    return "wanted" if row["sing_wrap"] else "-"


def _names(names: object) -> str:
    return ", ".join(names) if isinstance(names, list) and names else "-"


command = Command(
    "list",
    run,
    [json_option()],
    help="List the images under `dockers:`: what each stands for, the wrapped one for Singularity where "
    "there is one (`wanted` where runs need one), and the targets that use it.",
)
