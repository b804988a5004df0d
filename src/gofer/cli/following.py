"""Staying with a run that was just submitted: its log, or only its end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gofer.cli.ending import ended_line, exit_status
from gofer.cli.screen import say, write

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def follow_to_end(session: Session, row: RunRow, *, quiet: bool, to_stderr: bool) -> tuple[int, RunRow]:
    """Print the log as it grows, on stderr when stdout carries something else; (exit status, the ended run).

    A group has no log of its own and is only waited for. Ctrl-C leaves the run alone.
    """
    from gofer.ops.log_choice import Which, follow

    if row.kind == "run":
        try:
            for piece in follow(session, row, Which(), lines=None):
                _write_to_stderr(piece) if to_stderr else write(piece)
        except KeyboardInterrupt:
            say_it_goes_on(row)
            raise
    return wait_to_end(session, row, quiet=quiet)


def wait_to_end(session: Session, row: RunRow, *, quiet: bool) -> tuple[int, RunRow]:
    """Block until the run has ended; (exit status, the ended run). Ctrl-C leaves the run alone."""
    from gofer.ops.observe import wait

    try:
        (row,) = wait(session, [row.id], timeout_s=None)
    except KeyboardInterrupt:
        say_it_goes_on(row)
        raise
    if not quiet:
        say(ended_line(row))
    return exit_status(session, [row]), row


def _write_to_stderr(piece: bytes) -> None:
    sys.stderr.flush()
    sys.stderr.buffer.write(piece)
    sys.stderr.buffer.flush()


def say_it_goes_on(row: RunRow) -> None:
    """What a person who stopped watching can do with the run."""
    name = row.short_id
    sys.stderr.write("\n")
    say(f"the run goes on; `gofer logs -f {name}` follows it again, `gofer abort {name}` stops it")
