"""`gofer image show`: one image of `dockers:`, and its wrapped one."""

from __future__ import annotations

import sys
from typing import Any

import click

from gofer.cli.completion import images
from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.table import render_facts
from gofer.ops.images.wrap import image_facts
from gofer.ops.session import Session
from gofer.text import format_local_time


def run(**given: Any) -> int:
    """Facts, or JSON. The password is shown by where it is kept."""
    with Session() as session:
        facts = image_facts(session, given["name"])
    if given["as_json"]:
        print_json(facts)
    else:
        sys.stdout.write(
            render_facts([(key, _text(value)) for key, value in facts.items() if value not in (None, [])])
        )
    return 0


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format_local_time(value)
    return "\n".join(str(one) for one in value) if isinstance(value, list) else str(value)


command = Command(
    "show",
    run,
    [click.Argument(["name"], metavar="NAME", shell_complete=images), json_option()],
    help="Show one image of `dockers:`: its whole name, its steps, and the wrapped image where there is one.",
)
