"""`gofer tag`: set, show or remove the tags of a run that was submitted before."""

from __future__ import annotations

import sys
from typing import Any

import click

from gofer.cli.options import Command, Option, json_option, run_argument, target_option
from gofer.cli.output.done import record_done
from gofer.cli.output.json_output import print_json
from gofer.cli.output.table import render_facts
from gofer.ops.runs.find import find
from gofer.ops.runs.tags import tag
from gofer.ops.session import Session


def run(**given: Any) -> int:
    """Print the run's tags as they are afterwards."""
    words = [*given["tags"], *(f"-{key}" for key in given["remove"])]
    with Session(target=given["target"]) as session:
        row = find(session, given["run"], target=given["target"], acts=bool(words))
        if words:
            (row,) = tag(session, [row], words)
            record_done(f"the tags of {row.id} were changed")
    if given["as_json"]:
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
    help="Set tags of a run: `gofer tag last baseline lr=0.1`. Without tags, show the tags.",
)
