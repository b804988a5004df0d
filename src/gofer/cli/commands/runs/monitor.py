"""`gofer monitor`: a run's state and its log, live, until it has ended; without RUN, all that is active."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Option, json_option, run_argument, target_option
from gofer.cli.output.active_runs import runs_view
from gofer.cli.output.follow import print_end, print_still_running, write_setup
from gofer.cli.output.screen import print_message, write
from gofer.errors import UsageError
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.runs.find import find, targets_meant
from gofer.ops.runs.freshness import DRAWN_S, ActiveRuns, refresh_runs
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.observe import wait
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow

_LINES = 20


class _Options(TypedDict):
    run: str | None
    target: str | None
    rank: int
    lines: int
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """The log on stdout, states on stderr; 0 whatever becomes of the run. Ctrl-C leaves runs alone."""
    with Session(target=given["target"], emit=print_message) as session:
        if given["run"] is None:
            return _watch_all(session, given)
        if given["as_json"]:
            raise UsageError(
                "`gofer monitor RUN` prints the log, which is not JSON",
                hint="`gofer wait --json RUN` prints how it ended, `gofer monitor --json` all changes",
            )
        row = find(session, given["run"], target=given["target"])
        try:
            print_end(session, _watch(session, row, given))
        except KeyboardInterrupt:
            print_still_running(row)
            raise
    return 0


def _watch(session: Session, row: RunRow, given: _Options) -> RunRow:
    """Show the run until it has ended; the ended run."""
    (row,) = refresh_runs(session, [row])
    with LiveReport(session) as live:
        if row.kind == "group":
            return wait(session, [row.id], timeout_s=None, on_answer=live.report)[0]
        choice, reader = LogChoice(given["rank"]), LogReader(session, row)
        for piece in reader.follow(choice, lines=given["lines"], show_setup=write_setup, report=live):
            write(piece)
    return session.ledger.get(row.id) or row


def _watch_all(session: Session, given: _Options) -> int:
    """Show all active runs until Ctrl-C; without a terminal, until none is active."""
    view, runs = runs_view(session, as_json=given["as_json"]), ActiveRuns(session)
    targets = targets_meant(session, given["target"])
    try:
        while True:
            rows, warnings = runs.refresh()
            rows = [row for row in rows if not targets or row.target in targets]
            view.show(rows, warnings)
            if not view.is_endless and all(row.is_final for row in rows):
                return 0
            time.sleep(DRAWN_S)
    except KeyboardInterrupt:
        if view.is_endless:
            return 0
        raise


command = Command(
    "monitor",
    run,
    [
        run_argument(required=False),
        target_option("Only the runs on this target"),
        Option("--rank", "The rank whose log to show", type=click.IntRange(min=0), default=0, metavar="N"),
        Option(
            "--lines",
            "How many lines of the log to begin with",
            type=click.IntRange(min=1),
            default=_LINES,
            metavar="N",
        ),
        json_option("Without RUN: print the JSON of a run on a line when its state changes"),
    ],
    help="Follow a run: say what it waits for, print its log, and say how it ended. Without RUN, show all "
    "active runs of all targets, live; without a terminal, a line for each change until none is active. "
    "Ctrl-C stops the watching and leaves the runs alone.",
)
