"""Follow the logs of the rows of a group together, until all rows have ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.core.states import FINAL_STATES, State
from gofer.errors import StoreError
from gofer.ops.logs.group_logs import BATCH, MOST_ROWS, GroupLogs
from gofer.ops.logs.labelled_lines import LogLines
from gofer.ops.logs.log_follow import STORE, Followed, Follower, OutageNotice
from gofer.ops.logs.rank_logs import FollowedLog, LogRounds
from gofer.ops.messages import Message
from gofer.ops.runs.observe import PatientRefresh
from gofer.ops.runs.run_folder import attempt_numbers
from gofer.tracking.rows import ACTIVE

if TYPE_CHECKING:
    from gofer.ops.logs.chosen_lines import LineChoice
    from gofer.ops.messages import AnyMessage
    from gofer.ops.runs.live_status import LiveReport
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_PRESENT = (State.STARTING, State.RUNNING)
_GROWTH = 1.5
# The pause between questions to the cluster, which take at most a tenth of the time.
_LONGEST_ASK_S = 1.0
_SHARE = 9


class GroupFollower:
    """Follows the rows of one group; for one thread.

    The lines of at most MOST_ROWS rows come as they are written; those of other rows come when the row has
    ended. So no line is missing, and neither requests nor open files grow with the number of rows.
    """

    def __init__(self, session: Session, group: RunRow, wanted: LineChoice) -> None:
        self._session = session
        self._group = group
        self._wanted = wanted
        self._logs = GroupLogs(session, group, wanted)
        self._notice = OutageNotice(session.emit, STORE.words)
        self._followed: dict[str, list[FollowedLog]] = {}
        self._rounds: dict[str, LogRounds] = {}
        self._shown: set[str] = set()
        self._ended: set[str] = set()
        self._unread: list[RunRow] = []
        self._failing_since: float | None = None
        self._has_said = self._is_over = False

    def follow(
        self, *, lines: int | None = None, from_start: bool = False, report: LiveReport | None = None
    ) -> Iterator[bytes]:
        """The lines of rows that have ended, as `GroupLogs.read` gives them, then those of the others as they
        come, until all have ended. Blocks.

        With `from_start`, the group was just submitted: all lines of all rows come. `lines`: of the rows that
        run now, only the last lines.
        """
        if not from_start:
            yield from self._show_ended(lines)
        patient = PatientRefresh(self._session, heard=from_start)
        next_ask, ask_s, pause = 0.0, STORE.shortest_s, STORE.shortest_s
        while True:
            if (began := time.monotonic()) >= next_ask:
                patient.refresh([self._group])
                ended = self._update(lines)
                if report is not None:
                    report.report([self._group])
                took = time.monotonic() - began
                ask_s = STORE.shortest_s if ended else min(ask_s * _GROWTH, _LONGEST_ASK_S)
                next_ask = time.monotonic() + max(ask_s, _SHARE * took)
                self._unread += ended
            yield from self._show_unread(lines)
            has_grown = False
            for piece in self._step():
                has_grown = True
                yield piece
            lines = None
            if self._is_over and not self._followed and not self._unread:
                return
            pause = STORE.shortest_s if has_grown else min(pause * _GROWTH, STORE.longest_s)
            time.sleep(max(0.0, min(pause, next_ask - time.monotonic())))

    def _show_ended(self, lines: int | None) -> Iterator[bytes]:
        ended = [row for row in self._logs.rows() if row.is_final]
        self._shown.update(row.id for row in ended)
        yield from self._logs.read_rows(ended, lines)

    def _show_unread(self, lines: int | None) -> Iterator[bytes]:
        """The lines of rows that have ended and were not followed. A store that does not answer is tried
        again in the next round.
        """
        while self._unread:
            try:
                found = self._logs.locate(self._unread[:BATCH], lines, all_attempts=lines is None)
            except StoreError as error:
                self._notice.report(error)
                self._failing_since = self._failing_since or time.monotonic()
                if time.monotonic() - self._failing_since > STORE.limit_s:
                    raise
                return
            self._failing_since = None
            del self._unread[:BATCH]
            yield from self._logs.lines_of(found)

    def _update(self, lines: int | None) -> list[RunRow]:
        """Follow rows that have begun; the rows that have ended and were not followed."""
        ledger, name = self._session.ledger, self._group.id
        self._group = ledger.get(name) or self._group
        present = ledger.rows_of(name, _PRESENT)
        for row in present:
            if self._logs.is_chosen(row) and row.id not in self._followed and row.id not in self._shown:
                if len(self._followed) >= MOST_ROWS:
                    self._say_that_some_come_later(len(present))
                    break
                self._begin(row, lines)
        open_rows = [] if self._group.is_final else ledger.rows_of(name, ACTIVE)
        self._is_over = not any(map(self._logs.is_chosen, open_rows))
        if sum(self._group.counts.get(state, 0) for state in FINAL_STATES) <= len(self._ended | self._shown):
            return []
        return self._newly_ended()

    def _newly_ended(self) -> list[RunRow]:
        found = []
        for row in self._session.ledger.rows_of(self._group.id, FINAL_STATES):
            if row.id in self._shown or row.id in self._ended:
                continue
            if row.id in self._followed:
                self._ended.add(row.id)
                continue
            self._shown.add(row.id)
            if self._logs.is_chosen(row):
                found.append(row)
        return found

    def _say_that_some_come_later(self, running: int) -> None:
        if not self._has_said:
            self._session.emit(
                Message(
                    f"{running:,} rows run: {MOST_ROWS} of them are followed, "
                    "and the lines of the others come when they end"
                )
            )
        self._has_said = True

    def _begin(self, row: RunRow, lines: int | None) -> None:
        """Follow a row: its failed set-up, and its chosen rank or all ranks."""
        wanted, choice = self._wanted, self._wanted.choice

        def emit(message: AnyMessage) -> None:
            self._session.emit(Message(f"[{row.row_index}] {message}"))

        base = Followed(
            attempts=lambda: attempt_numbers(self._logs.store, row.id),
            locate=lambda attempt, is_over: None,
            is_over=lambda attempt: row.id in self._ended,
            emit=emit,
            attempt=choice.attempt,
            notice=self._notice,
        )
        if wanted.since is not None:
            base = base._replace(begin_at=self._logs.lines_since(row, wanted.since).begin_at)
        rounds = self._rounds[row.id] = LogRounds(self._logs.store, row.id, base)
        ranks = range(row.nodes * row.procs) if wanted.all_ranks else [choice.rank]
        logs = [(rounds.of_setup(), None), *((self._of_rank(rounds, rank), rank) for rank in ranks)]
        self._followed[row.id] = [
            FollowedLog(
                Follower(followed, lines=lines),
                self._logs.mask,
                LogLines(self._logs.label(row, rank), wanted.pattern),
            )
            for followed, rank in logs
        ]

    def _of_rank(self, rounds: LogRounds, rank: int) -> Followed:
        return rounds.of_rank(rank, self._wanted.choice.node, or_first=not self._wanted.all_ranks)

    def _step(self) -> Iterator[bytes]:
        """The new lines of all rows that are followed."""
        for run_id, members in list(self._followed.items()):
            self._rounds[run_id].begin()
            for member in members:
                yield from member.step()
                member.follower.skip_no_later_lines()
            if all(member.follower.is_finished for member in members):
                self._ended.discard(run_id)
                self._shown.add(run_id)
                del self._followed[run_id], self._rounds[run_id]
