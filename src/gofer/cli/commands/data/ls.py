"""`gofer ls`: list a mapped folder or a store."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, json_option, offers, quiet_option, target_option
from gofer.cli.output.json_output import one_line
from gofer.cli.output.screen import print_message, print_nothing, printable
from gofer.ops.data.contents import expand, list_entries, list_folders
from gofer.ops.data.places import resolve
from gofer.ops.messages import Message
from gofer.ops.session import Session
from gofer.text import format_local_time, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gofer.ops.data.contents import ListingEntry

_FLUSHED_EVERY_S = 0.2


class _Options(TypedDict):
    paths: tuple[str, ...]
    target: str | None
    recursive: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Lines, or a JSON array, as they arrive from the store; the total on stderr."""
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        write = _write_json if given["as_json"] else _write_lines
        files, folders, size = write(_entries(session, given))
        folder_words = f", {folders:,} folder{'' if folders == 1 else 's'}" if folders else ""
        session.emit(Message(f"{files:,} file{'' if files == 1 else 's'}, {format_size(size)}{folder_words}"))
    return 0


def _entries(session: Session, given: _Options) -> Iterator[ListingEntry]:
    if not given["paths"]:
        yield from list_folders(session, given["target"])
    for word in given["paths"]:
        for place in expand(resolve(session, word, given["target"])):
            yield from list_entries(place, recursive=given["recursive"])


def _write_lines(entries: Iterator[ListingEntry]) -> tuple[int, int, int]:
    files = folders = size = 0
    flushed = 0.0
    for entry in entries:
        if entry.size is None:
            folders += 1
            sys.stdout.write(f"{'-':>10}  {'-':<19}  {printable(entry.path)}\n")
        else:
            files, size = files + 1, size + entry.size
            when = format_local_time(entry.modified)
            sys.stdout.write(f"{format_size(entry.size):>10}  {when}  {printable(entry.path)}\n")
        if time.monotonic() - flushed > _FLUSHED_EVERY_S:
            sys.stdout.flush()
            flushed = time.monotonic()
    return files, folders, size


def _write_json(entries: Iterator[ListingEntry]) -> tuple[int, int, int]:
    files = folders = size = 0
    for entry in entries:
        sys.stdout.write(",\n  " if files + folders else "[\n  ")
        sys.stdout.write(
            one_line({"path": entry.path, "size": entry.size, "modified": format_time(entry.modified)})
        )
        files, folders = files + (entry.size is not None), folders + (entry.size is None)
        size += entry.size or 0
    sys.stdout.write("\n]\n" if files + folders else "[]\n")
    return files, folders, size


command = Command(
    "ls",
    run,
    [
        click.Argument(["paths"], nargs=-1, metavar="PATH…", shell_complete=offers("paths")),
        target_option("The target whose folders to use", default_text="the project's default target"),
        Flag("-r --recursive", "All files below, instead of one level"),
        json_option("Print a JSON array of objects with path, size and modified"),
        quiet_option(),
    ],
    help="List every path that begins with PATH: a file, the contents of a folder, and files and "
    "folders with a longer name. With a slash at the end of PATH, list only the contents of the "
    "folder. Files in packs are listed too. `RUN:` and `RUN:path` mean the files of a run. Without PATH, "
    "list the mapped folders.",
)
