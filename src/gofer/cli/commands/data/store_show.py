"""`gofer store show`: one store and the kind of its credential."""

from __future__ import annotations

import sys
from typing import Any

import click

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.table import render_facts
from gofer.ops.data.store_facts import store_facts
from gofer.ops.session import Session


def run(**given: Any) -> int:
    """Facts, or JSON; the default store when none is named."""
    with Session() as session:
        facts = store_facts(session, given["name"])
    if given["as_json"]:
        print_json(facts)
    else:
        lines = [(key.replace("_", " "), str(value)) for key, value in facts.items() if value is not None]
        sys.stdout.write(render_facts(lines))
    return 0


command = Command(
    "show",
    run,
    [click.Argument(["name"], required=False, default="default", metavar="[NAME]"), json_option()],
    help="Show one store: its address, the kind of its credential, and the rights and the end of a SAS. "
    "Secrets are not shown.",
)
