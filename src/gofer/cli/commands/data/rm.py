"""`gofer rm`: remove files and folders from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, json_option, offers, quiet_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import confirmation_prompt, print_message, print_nothing
from gofer.errors import UsageError
from gofer.ops.data.data import remove, survey
from gofer.ops.messages import Message
from gofer.ops.session import Session
from gofer.text import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.data.data import Removal


class _Options(TypedDict):
    paths: tuple[str, ...]
    target: str | None
    recursive: bool
    yes: bool
    dry_run: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Count, ask, remove. 1 when the answer was no."""
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        removals = survey(session, given["paths"], given["target"], whole=given["recursive"])
        for one in removals:
            session.emit(
                Message(f"{one.place}: {_files(one.files)}, {format_size(one.bytes)} in {one.store.url}")
            )
        if given["dry_run"]:
            return _print(removals, 0, given)
        if not given["yes"] and not _agreed(removals):
            print_message("nothing was removed")
            return 1
        removed = remove(removals)
        if given["as_json"]:
            return _print(removals, removed, given)
        session.emit(Message(f"{_files(removed)} removed"))
    return 0


def _agreed(removals: Sequence[Removal]) -> bool:
    ask = confirmation_prompt()
    if ask is None:
        raise UsageError(
            f"{_files(sum(one.files for one in removals))} would be removed, and no terminal can confirm it",
            hint="add `--yes`",
        )
    names = ", ".join(str(one.place) for one in removals)
    return ask(f"remove {names} for good?")


def _print(removals: Sequence[Removal], removed: int, given: _Options) -> int:
    if given["as_json"]:
        found = [{"path": str(one.place), "files": one.files, "bytes": one.bytes} for one in removals]
        print_json({"dry_run": given["dry_run"], "paths": found, "removed": removed})
    return 0


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


command = Command(
    "rm",
    run,
    [
        click.Argument(["paths"], nargs=-1, required=True, metavar="PATH…", shell_complete=offers("paths")),
        target_option("The target whose folders to use", default_text="the project's default target"),
        Flag("-r --recursive", "Allow PATH to be all of a mapped folder"),
        Flag("-y --yes", "Do not ask"),
        Flag("--dry-run", "Show what would be removed, without removing"),
        json_option("Print a summary as JSON"),
        quiet_option(),
    ],
    help="Remove files and folders from the stores of their mapped folders; files on this machine stay. "
    "Shows the number and size of the files and asks; without a terminal it needs `--yes`. Removed "
    "files cannot be brought back.",
)
