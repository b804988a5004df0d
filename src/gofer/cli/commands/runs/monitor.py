"""`gofer monitor`: a run's state and its log, live, until it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gofer.cli.options import Command, Option, run_argument, target_option
from gofer.cli.output.follow import print_end, print_still_running, write_setup
from gofer.cli.output.screen import print_message, write
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.runs.find import find
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.observe import wait
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow

_LINES = 20


def run(**given: Any) -> int:
    """The log on stdout, states on stderr; 0 whatever becomes of the run. Ctrl-C leaves the run alone."""
    with Session(target=given["target"], emit=print_message) as session:
        row = find(session, given["run"], target=given["target"])
        try:
            print_end(session, _watch(session, row, given))
        except KeyboardInterrupt:
            print_still_running(row)
            raise
    return 0


def _watch(session: Session, row: RunRow, given: dict[str, Any]) -> RunRow:
    """Show the run until it has ended; the ended run."""
    (row,) = refresh_runs(session, [row])
    with LiveReport(session) as live:
        if row.kind == "group":
            return wait(session, [row.id], timeout_s=None, on_answer=live.report)[0]
        choice, reader = LogChoice(given["rank"]), LogReader(session, row)
        for piece in reader.follow(choice, lines=given["lines"], show_setup=write_setup, report=live):
            write(piece)
    return session.ledger.get(row.id) or row


command = Command(
    "monitor",
    run,
    [
        run_argument(),
        target_option("Only look among the runs on this target"),
        Option("--rank", "The rank whose log to show", type=click.IntRange(min=0), default=0, metavar="N"),
        Option(
            "--lines",
            "How many lines of the log to begin with",
            type=click.IntRange(min=1),
            default=_LINES,
            metavar="N",
        ),
    ],
    help="Follow a run: say what it waits for, print its log, and say how it ended. Ctrl-C stops the "
    "watching and leaves the run alone.",
)
