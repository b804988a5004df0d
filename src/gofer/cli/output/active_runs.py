"""The active runs, shown again and again: a table in place on a terminal, else a line for each change."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from gofer.cli.output.columns import SHOWN, text
from gofer.cli.output.json_output import one_line
from gofer.cli.output.redrawn import RedrawnText
from gofer.cli.output.run_table import run_table
from gofer.cli.output.screen import columns_of, cut, print_message, printable
from gofer.cli.output.theme import has_colours, themed
from gofer.ops.runs.view import run_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.messages import AnyMessage
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_IN_LINE = ("short", "name", "state", "reason", "target")


class RunsView(Protocol):
    """Where runs are shown. `is_endless`: a person ends the view; otherwise it ends with the last run."""

    is_endless: bool

    def show(self, rows: Sequence[RunRow], warnings: Sequence[AnyMessage]) -> None:
        """Show the runs as they are now, and which of their states are old."""


def runs_view(session: Session, *, as_json: bool) -> RunsView:
    """The view for stdout."""
    is_live = not as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return _Table() if is_live else _Changes(session, as_json=as_json)


class _Table:
    is_endless = True

    def __init__(self) -> None:
        self._text = RedrawnText(sys.stdout)

    def show(self, rows: Sequence[RunRow], warnings: Sequence[AnyMessage]) -> None:
        columns, colour = columns_of(sys.stdout), has_colours(sys.stdout)
        counts = Counter(row.state for row in rows)
        words = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no run is active"
        head = cut(f"{time.strftime('%H:%M:%S')}  {words}; Ctrl-C ends the view", columns)
        notes = [themed(cut(printable(str(one)), columns), sys.stdout) for one in warnings]
        table = run_table(rows, SHOWN, spare=True, fit=columns, colour=colour) if rows else ""
        self._text.draw([head, *notes, *table.splitlines()])


class _Changes:
    """Prints each run once, and again when its state or the states of its rows have changed."""

    is_endless = False

    def __init__(self, session: Session, *, as_json: bool) -> None:
        self._session = session
        self._as_json = as_json
        self._seen: dict[str, object] = {}
        self._warned: set[str] = set()

    def show(self, rows: Sequence[RunRow], warnings: Sequence[AnyMessage]) -> None:
        for row in reversed(rows):
            known = (row.state, row.counts)
            if self._seen.get(row.id) != known:
                self._seen[row.id] = known
                sys.stdout.write(self._line(row) + "\n")
        sys.stdout.flush()
        self._warn(warnings)

    def _line(self, row: RunRow) -> str:
        if self._as_json:
            return one_line(run_json(self._session, row, from_store=False))
        now = time.time()
        words = [printable(word) for name in _IN_LINE if (word := text(name, row, now))]
        return "  ".join([time.strftime("%H:%M:%S"), *words])

    def _warn(self, warnings: Sequence[AnyMessage]) -> None:
        """Print a warning when it is new; its age always grows."""
        found = {str(one).partition(";")[0]: one for one in warnings}
        for words in found.keys() - self._warned:
            print_message(found[words])
        self._warned = set(found)
