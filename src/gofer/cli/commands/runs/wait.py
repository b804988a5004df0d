"""`gofer wait`: block until runs have ended, and exit as they did."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from gofer.cli.options import (
    Command,
    Option,
    json_option,
    quiet_option,
)
from gofer.cli.output.describe import failed_row_line
from gofer.cli.output.follow import SetupLines, print_still_running
from gofer.cli.output.run_json import print_runs
from gofer.cli.output.screen import print_message, printable
from gofer.cli.output.theme import themed
from gofer.cli.run_choice import choose_runs, run_arguments
from gofer.errors import Interrupted
from gofer.ops.runs.failures import exit_status, first_failed_row
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.observe import wait
from gofer.ops.session import Session
from gofer.text import parse_duration_s

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow

_TIME_IS_UP = 124


class _Options(TypedDict):
    runs: tuple[str, ...]
    filters: tuple[str, ...]
    target: str | None
    timeout: str | None
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """A line, or JSON, for every run; the highest exit status among them; 124 when the time is up."""
    timeout_s = parse_duration_s(given["timeout"]) if given["timeout"] else None
    is_silent = given["quiet"] or given["as_json"]
    with Session(target=given["target"], emit=print_message) as session:
        rows = choose_runs(session, given["runs"], given["filters"], target=given["target"])
        try:
            with LiveReport(session, show_setup=SetupLines().write) as live:
                rows = wait(
                    session,
                    [row.id for row in rows],
                    timeout_s=timeout_s,
                    on_answer=None if is_silent else live.report,
                )
        except Interrupted as late:
            print_message(f"{late.message}; the run continues")
            return _TIME_IS_UP
        except KeyboardInterrupt:
            print_still_running(*rows)
            raise
        _show(session, rows, as_json=given["as_json"])
        if not is_silent:
            for failed in filter(None, (first_failed_row(session, row) for row in rows)):
                print_message(failed_row_line(failed))
        return exit_status(session, rows)


def _show(session: Session, rows: list[RunRow], *, as_json: bool) -> None:
    if as_json:
        print_runs(session, rows)
        return
    for row in rows:
        line = printable(f"{row.id} {row.state} {row.reason or ''}".rstrip())
        sys.stdout.write(themed(line, sys.stdout) + "\n")


command = Command(
    "wait",
    run,
    [
        *run_arguments("Wait for the runs that match now"),
        Option(
            "--timeout",
            "Stop waiting after this time, for example `90s` or `2h`, with exit status 124",
            default_text="no limit",
            metavar="TIME",
        ),
        json_option("Print a JSON array of the runs"),
        quiet_option(),
    ],
    help="Wait for runs to end. The exit status is the run's own: its command's exit code, 128 + the signal "
    "that ended it (143 when it was cancelled), or 1 when it has none; of several runs, the highest.",
)
