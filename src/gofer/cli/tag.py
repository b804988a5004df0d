"""`gofer tag`: set, show or remove the tags of a run that was submitted before."""

from __future__ import annotations

import sys
from typing import Any

import click

from gofer.cli.options import Command, Option, json_option, run_argument, target_option
from gofer.cli.table import render_facts


def run(**given: Any) -> int:
    """Print the run's tags as they are afterwards."""
    from gofer.ops.find import find
    from gofer.ops.session import Session
    from gofer.ops.tags import tag

    words = [*given["tags"], *(f"-{key}" for key in given["remove"])]
    with Session(target=given["target"]) as session:
        row = find(session, given["run"], target=given["target"])
        if words:
            (row,) = tag(session, [row], words)
    if given["as_json"]:
        from gofer.cli.json_output import print_json

        print_json(row.tags)
    else:
        sys.stdout.write(render_facts(sorted(row.tags.items())))
    return 0


command = Command(
    "tag",
    run,
    [
        run_argument(),
        click.Argument(["tags"], nargs=-1, metavar="[K[=V]…]"),
        Option("--remove", "Remove this tag", multiple=True, metavar="K"),
        target_option("Only look among the runs on this target"),
        json_option(),
    ],
    help="Set tags of a run, such as `gofer tag last baseline lr=0.1`; without tags, show them.",
)
