"""`gofer query`, `gofer q`: the state of a run and the reason, with the end of its log and its log files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, Option, json_option, run_argument, target_option
from gofer.cli.output.describe import describe
from gofer.cli.output.run_json import print_run, print_runs
from gofer.cli.output.screen import print_message, write
from gofer.cli.output.theme import has_colours
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.runs.find import find_all
from gofer.ops.runs.freshness import refresh_shown
from gofer.ops.runs.query import facts
from gofer.ops.session import Session
from gofer.ops.submission.ledger_rows import is_adopted

if TYPE_CHECKING:
    from gofer.ops.logs.log_reader import LogCopies
    from gofer.ops.runs.freshness import StaleRuns
    from gofer.tracking.ledger import RunRow

_LINES = 100


class _Options(TypedDict):
    runs: tuple[str, ...]
    target: str | None
    lines: int
    no_logs: bool
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """For each run: the log's end, the log paths and the facts on stdout, or JSON."""
    with Session(target=given["target"]) as session:
        rows, stale = refresh_shown(session, find_all(session, given["runs"], target=given["target"]))
        if given["as_json"]:
            print_run(session, rows[0], stale) if len(rows) == 1 else print_runs(session, rows, stale)
            return 0
        for at, row in enumerate(rows):
            if at:
                sys.stdout.write("\n")
            _show(session, row, stale, lines=0 if given["no_logs"] else given["lines"])
    return 0


def _show(session: Session, row: RunRow, stale: StaleRuns, *, lines: int) -> None:
    reader = LogReader(session, row, whole=True)
    lines = lines if is_adopted(row) or stale.can_read(session, row, reader.folder) else 0
    copies = _fetch(reader, row) if lines else None
    log_shown = bool(lines) and row.kind == "run" and _print_tail(reader, lines, copies)
    found = facts(session, row, reader, stale, fetched=None if copies is None else copies.paths)
    sys.stdout.write(describe(found, now=time.time(), log_shown=log_shown, colour=has_colours(sys.stdout)))


def _fetch(reader: LogReader, row: RunRow) -> LogCopies | None:
    """The copies of the logs under `assets/` of this folder; None where it cannot be written."""
    from pathlib import Path

    from gofer.ops.logs.log_copies import hide_from_git

    folder = Path("assets") / row.id
    try:
        copies = reader.fetch(folder)
        hide_from_git(folder)
        return copies
    except OSError as error:
        print_message(
            f"warning: the logs could not be copied to {folder}: {(error.strerror or str(error)).lower()}"
        )
        return None


def _print_tail(reader: LogReader, lines: int, copies: LogCopies | None) -> bool:
    """Print the end of the log; False when there was nothing to print."""
    end = reader.tail(lines=lines, copies=() if copies is None else copies.service)
    if end:
        write(end if end.endswith(b"\n") else end + b"\n")
        sys.stdout.write("\n")
    return bool(end)


command = Command(
    "query",
    run,
    [
        run_argument(many=True),
        target_option("Only look among the runs on this target"),
        Option(
            "--lines",
            "The number of last log lines to show",
            type=click.IntRange(min=1),
            default=_LINES,
            metavar="N",
        ),
        Flag("--no-logs", "Do not copy or show logs"),
        json_option("Print JSON: one object, or an array of them for several runs; fetches no logs"),
    ],
    help="Show a run: the last log lines of rank 0, the paths of its logs, and its state and details. "
    "Copies the logs to assets/<id>/. Without RUN, this is `gofer list runs`.",
)
