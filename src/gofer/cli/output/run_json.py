"""Print runs on stdout as JSON: one object, or an array that is written as it grows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gofer.cli.output.json_output import array_text, print_json
from gofer.cli.output.screen import print_message
from gofer.errors import StoreError
from gofer.ops.runs.freshness import NOT_STALE
from gofer.ops.runs.view import run_jsons

if TYPE_CHECKING:
    from collections.abc import Collection

    from gofer.ops.runs.freshness import StaleRuns
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def print_run(session: Session, row: RunRow, stale: StaleRuns = NOT_STALE) -> None:
    """Write one run to stdout as an object; see `print_runs`."""
    print_json(_documents(session, [row], stale)[0])


def print_runs(
    session: Session, rows: Collection[RunRow], stale: StaleRuns = NOT_STALE, *, from_store: bool = True
) -> None:
    """Write runs to stdout as an array; without `from_store`, without looking for their logs.

    If the store cannot be read, the ledger's facts are used, with a warning. Without `from_store` there may
    be very many runs, so each is written before the next is read.
    """
    if from_store:
        print_json(_documents(session, rows, stale))
        return
    for piece in array_text(run_jsons(session, rows, from_store=False, stale=stale)):
        sys.stdout.write(piece)


def _documents(session: Session, rows: Collection[RunRow], stale: StaleRuns) -> list[dict[str, object]]:
    try:
        return list(run_jsons(session, rows, stale=stale))
    except StoreError as error:
        print_message(f"warning: {error.message}; `logs` are not looked up")
        return list(run_jsons(session, rows, from_store=False, stale=stale))
