"""`gofer cat`: the bytes of files in a store."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, offers, target_option
from gofer.ops.data.contents import expand, read
from gofer.ops.data.places import resolve
from gofer.ops.session import Session


class _Options(TypedDict):
    paths: tuple[str, ...]
    target: str | None


def run(**given: Unpack[_Options]) -> int:
    """Print the files one after another, byte for byte."""
    sys.stdout.flush()
    with Session(target=given["target"]) as session:
        for word in given["paths"]:
            for place in expand(resolve(session, word, given["target"])):
                for piece in read(place):
                    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return 0


command = Command(
    "cat",
    run,
    [
        click.Argument(["paths"], nargs=-1, required=True, metavar="PATH…", shell_complete=offers("paths")),
        target_option("The target whose folders to use", default_text="the project's default target"),
    ],
    help="Print files from the stores of their mapped folders, also files in packs, byte for byte. "
    "`RUN:path` means a file of a run.",
)
