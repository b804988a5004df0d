"""`gofer view portal`: the web page of a target or a run."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, json_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.runs.target_views import portal_of
from gofer.ops.session import Session


class _Options(TypedDict):
    name: str | None
    target: str | None
    browse: bool
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """Print the URL on stdout, and open it with `--browse`; 0 even when no browser can be opened."""
    with Session(target=given["target"]) as session:
        address = portal_of(session, given["name"] or given["target"])
    if given["as_json"]:
        print_json({"url": address})
    else:
        sys.stdout.write(address + "\n")
    sys.stdout.flush()
    if given["browse"]:
        import webbrowser

        if not webbrowser.open(address):
            print_message("no browser could be opened here; the address is above")
    return 0


command = Command(
    "portal",
    run,
    [
        click.Argument(["name"], required=False, metavar="[TARGET|RUN]"),
        target_option("The target of the page, or of the run", default_text="the project's default target"),
        Flag("--browse", "Open it in the browser"),
        json_option("Print the address as JSON"),
    ],
    help="Print the address of the web page of a target or a run, and open it with `--browse`.",
)
