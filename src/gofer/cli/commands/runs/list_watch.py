"""`gofer list -w`: the table of runs as it changes, until Ctrl-C."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from gofer.cli.output.redrawn import RedrawnText
from gofer.cli.output.run_table import run_table
from gofer.cli.output.screen import columns_of, cut, print_message, printable
from gofer.cli.output.theme import has_colours, themed
from gofer.ops.messages import AnyMessage
from gofer.ops.runs.freshness import DRAWN_S, RepeatedRefresh, what_changes

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


# How long a message of the session stays below the table.
_TOLD_S = 10.0


class Shown(NamedTuple):
    """What is watched: a function that reads the runs from the ledger, and the columns of the table."""

    read: Callable[[], Iterable[RunRow]]
    names: tuple[str, ...]
    spare: bool

    def table(self, rows: Iterable[RunRow], fit: int | None) -> list[str]:
        text = run_table(rows, self.names, spare=self.spare, fit=fit, colour=has_colours(sys.stdout))
        return text.splitlines()


def watch(session: Session, shown: Shown) -> NoReturn:
    """Show the runs and their changes until Ctrl-C. Messages of the session are shown below the table."""
    told: list[tuple[float, AnyMessage]] = []
    session.emit = lambda message: told.append((time.monotonic(), message))
    is_live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view = _LiveTable(shown) if is_live else _Changes(shown)
    refresh = RepeatedRefresh(session)
    try:
        while True:
            warnings = refresh.refresh()
            since = time.monotonic() - _TOLD_S
            told[:] = [one for one in told if one[0] > since]
            rows = list(shown.read())  # the ledger also has what other commands do in the meantime
            refresh.note(rows)
            view.show(rows, [*warnings, *(message for _, message in told)])
            time.sleep(DRAWN_S)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise


class _LiveTable:
    """The table on a terminal, drawn again in its place."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._text = RedrawnText(sys.stdout)

    def show(self, rows: list[RunRow], messages: list[AnyMessage]) -> None:
        columns = columns_of(sys.stdout)
        notes = [themed(cut(printable(str(message)), columns), sys.stdout) for message in messages]
        self._text.draw([*self._shown.table(rows, columns), *notes])


class _Changes:
    """The table in a file or pipe: once, and then the lines of runs that have changed."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._known: dict[str, object] | None = None
        self._said: set[str] = set()

    def show(self, rows: list[RunRow], messages: list[AnyMessage]) -> None:
        self._print_new(messages)
        facts = {row.id: what_changes(row) for row in rows}
        known = self._known or {}
        changed = [row for row in rows if known.get(row.id) != facts[row.id]]
        if changed or self._known is None:
            lines = self._shown.table(changed, None)
            sys.stdout.write("".join(f"{line}\n" for line in lines[self._known is not None :]))
            sys.stdout.flush()
        self._known = {**known, **facts}

    def _print_new(self, messages: list[AnyMessage]) -> None:
        """Print the messages that the last answer did not have. Ages in them do not count."""
        said = {re.sub(r"[0-9]+", "", str(message)) for message in messages}
        for message in messages:
            if re.sub(r"[0-9]+", "", str(message)) not in self._said:
                print_message(message)
        self._said = said
