"""Emit what runs wait for or do, while an operation waits for them: `LiveStatus` of gofer.ops.messages.

`LiveReport` alone decides what the status says, for every operation that waits. The cluster gives
the reasons, at growing intervals.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gofer.core.states import State
from gofer.errors import GoferError
from gofer.ops.logs.setup_log import SetupLog
from gofer.ops.messages import NO_STATUS, LiveStatus
from gofer.ops.runs.node_reports import progress
from gofer.ops.runs.run_records import RunRecords
from gofer.ops.runs.wait_reason import WAITING, waiting_for
from gofer.text import count_runs, format_duration
from gofer.tracking.query import Filter, Query

if TYPE_CHECKING:
    from types import TracebackType

    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

# Most runs start at once: the cluster is not asked why they wait.
_FIRST_ASK_S = 1.0
_GROWTH, _LONGEST_PAUSE_S = 1.5, 30.0
_FINAL = [state.value for state in State if state.is_final]
# The states of a run up to the start of its command, in order.
_BEFORE_LOG = (State.PENDING.value, State.QUEUED.value, State.STARTING.value)
_PRESENT = (State.STARTING.value, State.RUNNING.value)
# The states that are counted by name.
_NAMED = (State.FAILED.value, State.LOST.value, State.CANCELLED.value, *_PRESENT)
_WAIT = "waiting"


class LiveReport:
    """Reports the status of runs through `session.emit`. For one thread.

    With `until_started`, a run has no status once its command has written output, because its log is shown
    then. `show_setup` gets the lines of the set-up of a single run, for an operation that shows no log of
    it. A context that ends the status.
    """

    def __init__(
        self,
        session: Session,
        *,
        until_started: bool = False,
        show_setup: Callable[[bytes], None] | None = None,
    ) -> None:
        self._session = session
        self._show_setup = show_setup
        self._setup: SetupLog | None = None
        self._until_started = until_started
        self._shown = NO_STATUS
        self._state = ""
        self._hidden_states: tuple[str, ...] = ()
        self._reason = ""
        self._ahead: int | None = None
        self._asked_of: tuple[str, str] | None = None
        self._next_ask, self._pause_s = 0.0, _FIRST_ASK_S

    def __enter__(self) -> LiveReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def report(self, rows: Sequence[RunRow]) -> None:
        """The present status of these runs and groups, by the ledger. May ask the cluster, which blocks."""
        if self._show_setup is not None and len(rows) == 1 and rows[0].kind == "run":
            self._setup = self._setup or SetupLog(self._session, rows[0], self._show_setup)
            self._setup.update(rows[0])
        if all(row.is_final for row in rows):
            self.end()
        elif len(rows) == 1 and rows[0].kind == "run":
            self._emit(self._of_run(rows[0]))
        else:
            self._emit(self._of_many(rows))

    def note_output(self) -> None:
        """The log of the run has begun: the ledger may not know for some seconds that the command runs."""
        if self._until_started:
            later = _BEFORE_LOG[_BEFORE_LOG.index(self._state) :] if self._state in _BEFORE_LOG else ()
            self._hidden_states = (*later, State.RUNNING.value)
            self.end()

    def end(self) -> None:
        """Nothing is waited for any longer. Idempotent."""
        self._emit(NO_STATUS)

    def _emit(self, status: LiveStatus) -> None:
        if status != NO_STATUS or self._shown != NO_STATUS:
            self._shown = status
            self._session.emit(status)

    def _of_run(self, row: RunRow) -> LiveStatus:
        self._state = row.state
        if self._hidden_states and row.state == State.RUNNING:
            self._hidden_states = (State.RUNNING.value,)  # a later attempt waits again
        if row.state in self._hidden_states:
            return NO_STATUS
        if self._is_due(row.id, row.state):
            self._ask(row)
        ahead = () if not self._ahead else (f"{count_runs(self._ahead)} ahead",)
        since = row.started_at if row.state == State.RUNNING else row.submitted_at
        return LiveStatus(row.short_id, row.state, since, ahead, self._reason)

    def _is_due(self, run_id: str, state: str) -> bool:
        """Whether to ask for the reason again. Forgets the reason of another run or state."""
        now = time.monotonic()
        if self._asked_of != (run_id, state):
            self._asked_of, self._reason, self._ahead = (run_id, state), "", None
            self._next_ask, self._pause_s = now + _FIRST_ASK_S, _FIRST_ASK_S
        return now >= self._next_ask

    def _ask(self, row: RunRow) -> None:
        if row.state in WAITING:
            answer = waiting_for(self._session, row, RunRecords(self._session).of(row))
            self._reason, self._ahead = answer.why, answer.ahead
        else:
            self._reason = self._progress(row)
        self._pause_s = min(self._pause_s * _GROWTH, _LONGEST_PAUSE_S)
        self._next_ask = time.monotonic() + self._pause_s

    def _progress(self, row: RunRow) -> str:
        try:
            return progress(self._session.run_folder(row), row) or ""
        except GoferError:
            return ""  # the operation that waits reports a store that does not answer

    def _of_many(self, rows: Sequence[RunRow]) -> LiveStatus:
        """The counts of several runs, with the reason of the first that waits if none runs."""
        counts: Counter[str] = Counter()
        for row in rows:
            counts.update(row.counts if row.kind == "group" else {row.state: 1})
        total, done = sum(counts.values()), sum(counts[state] for state in _FINAL)
        facts = [f"{counts[state]} {state}" for state in _NAMED if counts[state]]
        left_s = _left_s(rows, done, total) if done else None
        if left_s is not None:
            facts.append(f"ETA {format_duration(left_s, tenths=False)}")
        name = rows[0].short_id if len(rows) == 1 else count_runs(total)
        if any(counts[state] for state in _PRESENT):
            self._asked_of = None
        elif self._is_due(rows[0].id, _WAIT) and (first := self._first_waiting(rows)) is not None:
            self._ask(first)
        reason = "" if self._asked_of is None else self._reason
        return LiveStatus(name, f"{done}/{total} done", None, tuple(facts), reason)

    def _first_waiting(self, rows: Sequence[RunRow]) -> RunRow | None:
        for row in rows:
            if row.kind == "group":
                filters = (Filter("group", "=", (row.id,)), Filter("state", "=", WAITING))
                found = self._session.ledger.select(Query(filters=filters, include_rows=True, limit=1))
                if found:
                    return found[0]
            elif row.state in WAITING:
                return row
        return None


def _left_s(rows: Sequence[RunRow], done: int, total: int) -> float | None:
    """The time that the other runs need if they end as often as runs did so far; None before any started."""
    started = min((row.started_at for row in rows if row.started_at is not None), default=None)
    passed_s = 0.0 if started is None else time.time() - started
    return passed_s / done * (total - done) if passed_s > 0 else None
