"""Stay with a run that was just submitted: follow its log, or wait for its end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from gofer.cli.output.describe import ended_line, failed_row_line, failing_rank
from gofer.cli.output.screen import end_log_line, print_message, write
from gofer.errors import GoferError, StoreError
from gofer.ops.files.results import came_home
from gofer.ops.logs.chosen_lines import ChosenLines, LineChoice
from gofer.ops.runs.failures import exit_status, find_first_failure, first_failed_row
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.observe import wait
from gofer.ops.runs.run_records import RunRecords
from gofer.ops.submission.gpu_oversight import SAW_NO_GPU, saw_none

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

# Without a terminal, at most one line of the set-up is printed in this time.
_SETUP_PAUSE_S = 10.0


def follow_to_end(session: Session, row: RunRow, *, quiet: bool, to_stderr: bool) -> tuple[int, RunRow]:
    """Print the log as it grows, of a group the lines of its rows, on stderr when stdout carries something
    else; (exit status, the ended run). Ctrl-C leaves the run alone.
    """
    lines = ChosenLines(session, row, LineChoice())
    try:
        with LiveReport(session, until_started=row.kind == "run") as live:
            report = None if quiet or to_stderr else live
            for piece in lines.follow(
                from_start=True, show_setup=None if quiet else write_setup, report=report
            ):
                write(piece, sys.stderr if to_stderr else sys.stdout)
    except KeyboardInterrupt:
        print_still_running(row, has_log=True)
        raise
    return wait_to_end(session, row, quiet=quiet, log_shown=True, as_json=to_stderr)


def write_setup(data: bytes) -> None:
    """Print lines of the set-up on stderr, so that stdout has only the output of the command."""
    write(data, sys.stderr)


class SetupLines:
    """Prints the set-up of a run that is only waited for: on a terminal all lines, else few."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def write(self, data: bytes) -> None:
        if sys.stderr.isatty():
            write_setup(data)
        elif time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + _SETUP_PAUSE_S
            write_setup(data.splitlines(keepends=True)[-1])


def _remarks(session: Session, row: RunRow) -> str:
    """A short note about the files that the run left, and whether it saw no GPU. What cannot be read is left
    out.
    """
    try:
        left = came_home(session.run_folder(row, whole=True), row).short(row.short_id)
    except GoferError:
        left = ""
    said = [SAW_NO_GPU] if saw_none(RunRecords(session).of(row)) else []
    return "; ".join([*said, *([left] if left else [])])


def _show_failing_rank(session: Session, row: RunRow) -> None:
    """The last lines of the rank that failed first, unless its log is the one that was followed."""
    if row.kind == "group" or row.nodes * row.procs == 1:
        return
    try:
        failure = find_first_failure(session.run_folder(row), row)
    except StoreError as error:
        print_message(f"warning: which rank failed first cannot be read: {error.message}")
        return
    if failure is not None and failure.rank:
        end_log_line()
        sys.stderr.write(failing_rank(failure))
        print_message(f"`gofer logs {row.short_id} --rank {failure.rank}` prints all of it")


def wait_to_end(
    session: Session, row: RunRow, *, quiet: bool, log_shown: bool = False, as_json: bool = False
) -> tuple[int, RunRow]:
    """Block until the run has ended; (exit status, the ended run). Ctrl-C leaves the run alone.

    Where rank 0's log was shown and another rank failed first, the last lines of that rank follow.
    """
    try:
        with LiveReport(session, show_setup=None if log_shown else SetupLines().write) as live:
            (row,) = wait(
                session, [row.id], timeout_s=None, on_answer=None if quiet or as_json else live.report
            )
    except KeyboardInterrupt:
        print_still_running(row)
        raise
    if not quiet:
        if log_shown and row.state == "failed":
            _show_failing_rank(session, row)
        print_end(session, row, _remarks(session, row))
    return exit_status(session, [row]), row


def print_end(session: Session, row: RunRow, remarks: str = "") -> None:
    """How the run ended; of a group, also which row failed first."""
    print_message(ended_line(row, remarks))
    failed = first_failed_row(session, row)
    if failed is not None:
        print_message(failed_row_line(failed))


def print_still_running(*rows: RunRow, has_log: bool = False) -> None:
    """What a person who stopped watching can do with the runs. `has_log`: the person was reading lines."""
    names = " ".join(row.short_id for row in rows)
    is_read = has_log or rows[0].kind == "run"
    verb = "wait" if len(rows) > 1 else "logs -f" if is_read else "monitor"
    whose, them = ("run continues", "it") if len(rows) == 1 else ("runs continue", "them")
    sys.stderr.write("\n")
    print_message(
        f"the {whose}; `gofer {verb} {names}` follows {them} again, `gofer abort {names}` stops {them}"
    )
