"""`gofer list -w`: the table of runs as it changes, until Ctrl-C."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from gofer.cli.output.redrawn import RedrawnText
from gofer.cli.output.run_table import run_table
from gofer.cli.output.screen import columns_of, cut, print_message, printable
from gofer.cli.output.theme import has_colours, themed
from gofer.ops.messages import AnyMessage
from gofer.ops.runs.freshness import ANSWER_S, refresh_active
from gofer.ops.runs.observe import QueueChanges

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

# The pause between questions to the clusters: it grows while nothing changes, and is longer while a cluster
# does not answer. Questions take at most a tenth of the time.
_FIRST_S, _GROWTH, _LONGEST_S, _LONGEST_SILENCE_S = 2.0, 1.5, 10.0, 30.0
_SHARE = 9
# Where all runs that are shown are in the queue of this machine, which is a file.
_LOCAL_S = 1.0
# Ages on the terminal are drawn again this often.
_DRAWN_S = 1.0


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
    messages: list[AnyMessage] = []
    session.emit = messages.append
    is_live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view = _LiveTable(shown) if is_live else _Changes(shown)
    question = _Question()
    try:
        while True:
            if question.is_due():
                messages.clear()
                question.ask(session, has_failed=lambda: bool(messages))
            rows = list(shown.read())  # the ledger also has what other commands do in the meantime
            question.note(session, rows)
            view.show(rows, messages)
            time.sleep(_DRAWN_S)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise


class _Question:
    """The times of the requests to the clusters."""

    def __init__(self) -> None:
        self._next = self._earliest = 0.0
        self._pause_s = _FIRST_S
        self._longest_s = _LONGEST_S
        self._known: list[object] | None = None

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def ask(self, session: Session, *, has_failed: Callable[[], bool]) -> None:
        """Ask now. Blocks for at most some seconds."""
        began = time.monotonic()
        refresh_active(session, limit_s=ANSWER_S)
        now = time.monotonic()
        self._longest_s = _LONGEST_SILENCE_S if has_failed() else _LONGEST_S
        self._pause_s = min(self._pause_s * _GROWTH, self._longest_s)
        self._earliest = now + _SHARE * (now - began)
        self._next = max(now + self._pause_s, self._earliest)

    def note(self, session: Session, rows: Sequence[RunRow]) -> None:
        """Ask sooner when runs change, and when all that are shown are of this machine."""
        now, facts = time.monotonic(), _facts(rows)
        if facts != self._known and self._longest_s == _LONGEST_S:
            self._known, self._pause_s = facts, _FIRST_S
            self._next = max(min(self._next, now + _FIRST_S), self._earliest)
        if all(QueueChanges(session, [row]).are_seen for row in rows if not row.is_final):
            self._next = max(min(self._next, now + _LOCAL_S), self._earliest)


def _facts(rows: Iterable[RunRow]) -> list[object]:
    """What makes a run another one to look at."""
    return [(row.id, row.state, row.reason, row.counts, row.tags) for row in rows]


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
        facts = {row.id: fact for row, fact in zip(rows, _facts(rows), strict=True)}
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
