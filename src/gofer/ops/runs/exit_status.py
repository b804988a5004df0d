"""The exit status of a command that waits for runs, from how the runs ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_HIGHEST = 255


def exit_status(session: Session, rows: Sequence[RunRow]) -> int:
    """The highest exit status among the runs; a group counts as its rows."""
    return max(
        (_of_group(session, row) if row.kind == "group" else status_of(row) for row in rows), default=0
    )


def status_of(row: RunRow) -> int:
    """0 when it succeeded, else its command's own exit code, 128 + the signal, or 1 when there is none."""
    if row.state == "succeeded":
        return 0
    code = row.exit_code or 1
    return min(code if code > 0 else 128 - code, _HIGHEST)


def _of_group(session: Session, group: RunRow) -> int:
    if group.state == "succeeded":
        return 0
    bad = [state for state in group.counts if state != "succeeded"]
    return max((status_of(row) for row in session.ledger.rows_of(group.id, bad)), default=1)
