"""`gofer du`: the number and size of files in a folder of a store."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, json_option, offers, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import printable
from gofer.ops.data.contents import expand, usage
from gofer.ops.data.places import resolve
from gofer.ops.session import Session
from gofer.text import format_size


class _Options(TypedDict):
    paths: tuple[str, ...]
    target: str | None
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """A line, or a JSON object, for each folder in a path, and one for the path."""
    with Session(target=given["target"]) as session:
        words = given["paths"]
        places = [one for word in words for one in expand(resolve(session, word, given["target"]))]
        found = [line for place in places for line in usage(place)]
    if given["as_json"]:
        print_json([line._asdict() for line in found])
        return 0
    for line in found:
        files = f"{line.files:,} file{'' if line.files == 1 else 's'}"
        sys.stdout.write(f"{format_size(line.bytes):>10}  {files:>14}  {printable(line.path)}\n")
    return 0


command = Command(
    "du",
    run,
    [
        click.Argument(["paths"], nargs=-1, required=True, metavar="PATH…", shell_complete=offers("paths")),
        target_option("The target whose folders to use", default_text="the project's default target"),
        json_option("Print a JSON array of objects with path, files and bytes"),
    ],
    help="Show the number and size of the files in each folder of PATH, and in PATH as a whole. `RUN:` means "
    "the files of a run.",
)
