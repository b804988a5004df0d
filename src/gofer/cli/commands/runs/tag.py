"""`gofer tag`: set, show or remove the tags of a run that was submitted before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Option, filter_option, json_option, offers, run_argument, target_option
from gofer.cli.output.done import record_done
from gofer.cli.output.json_output import print_json
from gofer.cli.output.table import render_facts
from gofer.cli.run_choice import choose_runs, is_agreed, yes_option
from gofer.ops.runs.tags import parse_edits, tag
from gofer.ops.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Options(TypedDict):
    run: str | None
    tags: tuple[str, ...]
    remove: tuple[str, ...]
    filters: tuple[str, ...]
    yes: bool
    target: str | None
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """Print the runs' tags as they are afterwards; with `--filter`, by the ids of the runs."""
    named = [] if given["run"] is None else [given["run"]]
    # With a filter there is no RUN, and the first word is a tag like the others.
    named, tags = ([], [*named, *given["tags"]]) if given["filters"] else (named, given["tags"])
    words = [*tags, *(f"-{key}" for key in given["remove"])]
    with Session(target=given["target"]) as session:
        rows = choose_runs(session, named, given["filters"], target=given["target"], acts=bool(words))
        if words:
            parse_edits(words)  # refuses wrong words before the question to the person
            if given["filters"] and not is_agreed(rows, "tag", yes=given["yes"], in_script=True):
                return 1
            rows = tag(session, rows, words)
            record_done(f"the tags of {', '.join(row.id for row in rows)} were changed")
    if given["as_json"]:
        print_json({row.id: row.tags for row in rows} if given["filters"] else rows[0].tags)
    elif given["filters"]:
        facts = [(row.id, " ".join(_words(row.tags))) for row in rows]
        sys.stdout.write(render_facts(facts))
    else:
        sys.stdout.write(render_facts(sorted(rows[0].tags.items())))
    return 0


def _words(tags: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" if value else key for key, value in sorted(tags.items())]


command = Command(
    "tag",
    run,
    [
        run_argument(required=False),
        click.Argument(["tags"], nargs=-1, metavar="[K[=V]…]", shell_complete=offers("tags")),
        Option("--remove", "Remove this tag", multiple=True, metavar="K", shell_complete=offers("tag keys")),
        filter_option("The runs that match, instead of RUN"),
        yes_option(),
        target_option("Only look among the runs on this target"),
        json_option(),
    ],
    help="Set tags of a run: `gofer tag last baseline lr=0.1`. Without tags, show the tags. On a terminal "
    "gofer shows the runs of `--filter` and asks before it changes them.",
)
