"""`gofer logs`: the bytes of one rank's log on stdout, exactly as the command wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gofer.cli.options import Command, Flag, Option, json_option, run_argument, target_option
from gofer.cli.output.follow import print_still_running, write_setup
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message, write
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.runs.find import find
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.view import run_json
from gofer.ops.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gofer.tracking.ledger import RunRow


def run(**given: Any) -> int:
    """Print what there is, or follow until the run ends; 0 whatever became of the run."""
    with Session(target=given["target"], emit=print_message) as session:
        row = find(session, given["run"], target=given["target"])
        if given["as_json"]:
            print_json(run_json(session, row)["logs"])
            return 0
        wrote = False
        try:
            for piece in _pieces(session, row, given):
                wrote = wrote or bool(piece)
                write(piece)
        except KeyboardInterrupt:
            if given["follow"]:
                print_still_running(row)
            raise
        if not wrote:
            _print_nothing_yet(session, row)
    return 0


def _pieces(session: Session, row: RunRow, given: dict[str, Any]) -> Iterator[bytes]:
    choice, reader = LogChoice(given["rank"], given["node"], given["attempt"]), LogReader(session, row)
    if given["follow"]:
        return _follow(session, reader, choice, given["tail"])
    if given["tail"] is not None:
        return iter([reader.tail(choice, lines=given["tail"])])
    return reader.read(choice)


def _follow(session: Session, reader: LogReader, choice: LogChoice, lines: int | None) -> Iterator[bytes]:
    with LiveReport(session, until_started=True) as live:
        yield from reader.follow(choice, lines=lines, show_setup=write_setup, report=live)


def _print_nothing_yet(session: Session, row: RunRow) -> None:
    (row,) = refresh_runs(session, [row])
    reason = f" ({row.reason})" if row.reason else ""
    print_message(f"{row.short_id} {row.state}{reason} with no output{'' if row.is_final else ' so far'}")


command = Command(
    "logs",
    run,
    [
        run_argument(required=False),
        target_option("Only look among the runs on this target"),
        Option("--rank", "The rank whose log to print", type=click.IntRange(min=0), default=0, metavar="N"),
        Option(
            "--node",
            "The node whose log to print",
            default_text="the node of the rank",
            type=click.IntRange(min=0),
            metavar="N",
        ),
        Option(
            "--attempt",
            "The attempt whose log to print",
            default_text="the last",
            type=click.IntRange(min=1),
            metavar="N",
        ),
        Option(
            "--tail",
            "Only the last N lines",
            default_text="all lines",
            type=click.IntRange(min=0),
            metavar="N",
        ),
        Flag("-f --follow", "Follow the log until the run ends"),
        json_option("Print which logs there are, as a JSON array"),
    ],
    help="Print the log of a run: stdout and stderr of rank 0, or of the rank asked for. Without RUN, that "
    "of the newest run of this project. A run whose set-up failed has the log of its set-up; one that never "
    "started, and a job that gofer did not start, has the log that its service keeps.",
)
