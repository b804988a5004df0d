"""`gofer url`: an address that opens one file for a while."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, Option, json_option, offers, target_option
from gofer.cli.output.json_output import print_json
from gofer.ops.data.contents import address
from gofer.ops.data.places import resolve
from gofer.ops.session import Session
from gofer.text import format_time, parse_duration_s


class _Options(TypedDict):
    paths: tuple[str, ...]
    target: str | None
    expires: str
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """A line, or a JSON object, for every path."""
    import time

    expires_s = parse_duration_s(given["expires"])
    found = []
    with Session(target=given["target"]) as session:
        for word in given["paths"]:
            place = resolve(session, word, given["target"])
            until = format_time(time.time() + expires_s)
            found.append({"path": str(place), "url": address(place, expires_s), "expires": until})
    if given["as_json"]:
        print_json(found)
    else:
        sys.stdout.write("".join(f"{one['url']}\n" for one in found))
    return 0


command = Command(
    "url",
    run,
    [
        click.Argument(["paths"], nargs=-1, required=True, metavar="PATH…", shell_complete=offers("paths")),
        target_option("The target whose folders to use", default_text="the project's default target"),
        Option(
            "--expires", "How long the address works, for example `30m` or `7d`", default="1h", metavar="TIME"
        ),
        json_option("Print a JSON array of objects with path, url and expires"),
    ],
    help="Print an address with which anybody can read the file for a limited time. The address is a "
    "credential: keep it secret.",
)
