"""Read or follow the logs of the rows of a group as one stream of lines, each with its row: `[17] …`.

A group may have 100,000 rows. Logs are read by a few threads, and few rows are followed at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.parallel import parallel_map
from gofer.core.states import State
from gofer.errors import UnknownName, UsageError
from gofer.ops.logs.labelled_lines import LogLines
from gofer.ops.logs.log_bytes import StoredLog
from gofer.ops.logs.log_reader import mask_of, tail_of
from gofer.ops.logs.log_sources import LogChoice, choose
from gofer.ops.logs.log_times import LinesSince, read_from
from gofer.ops.logs.rank_logs import ranks_among
from gofer.ops.messages import Message
from gofer.ops.runs.run_folder import READERS, LogFile, list_logs

if TYPE_CHECKING:
    from gofer.core.secrets.mask import SecretMask
    from gofer.ops.logs.chosen_lines import LineChoice
    from gofer.ops.messages import AnyMessage
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

# Of more rows than this, the last lines of this many are shown, unless the person chooses rows.
MOST_ROWS = 20
LAST_LINES = 10
# A log up to this size is read by a thread; longer ones are read piece by piece.
_SMALL = 1 << 16
# Rows are located in batches, so that the first lines appear soon.
BATCH = 256
_WAITING = frozenset({State.PENDING, State.QUEUED, State.PAUSED})
# Which rows are shown first where not all are.
_FIRST = (State.FAILED, State.LOST, State.RUNNING, State.STARTING)


class FoundLog(NamedTuple):
    """A log with its label, the offset at which it is shown, and its lines if a thread has read them."""

    label: str
    log: StoredLog
    start: int
    data: bytes | None


class GroupLogs:
    """The logs of the rows of one group; for one thread. Secrets are masked. StoreError passes through."""

    def __init__(self, session: Session, group: RunRow, wanted: LineChoice) -> None:
        self._session = session
        self._group = group
        self._wanted = wanted
        self.store: Store = session.runs_in(group.store)
        self.mask: SecretMask = mask_of(session, group)
        self._has_said = False

    def read(self, lines: int | None = None) -> Iterator[bytes]:
        """All lines of the rows that have begun, or the last lines of each, one row after another.

        Without a choice of rows or lines, of more than MOST_ROWS rows only the last lines of the most
        interesting ones, with a message.
        """
        rows = [row for row in self.rows() if row.state not in _WAITING]
        yield from self.read_rows(rows, lines)

    def read_rows(self, rows: Sequence[RunRow], lines: int | None) -> Iterator[bytes]:
        """Like `read`, of these rows."""
        wanted = self._wanted
        narrows = any(choice is not None for choice in (wanted.rows, wanted.pattern, wanted.since))
        if narrows or len(rows) <= MOST_ROWS:
            yield from self.print_rows(rows, lines)
            return
        lines = LAST_LINES if lines is None else lines
        yield from self.print_rows(_most_interesting(rows), lines)
        name = self._group.short_id
        self._session.emit(
            Message(
                f"the last {lines} lines of {MOST_ROWS} of {len(rows):,} rows; "
                f"`gofer logs {name} --row all` prints all, and `--grep PATTERN` searches all"
            )
        )

    def rows(self) -> list[RunRow]:
        """The chosen rows, in order."""
        return list(filter(self.is_chosen, self._session.ledger.rows_of(self._group.id)))

    def is_chosen(self, row: RunRow) -> bool:
        """Whether the row is among those that the person wants."""
        return self._wanted.rows is None or self._wanted.rows(row.row_index or 0)

    def files(self) -> Iterator[tuple[RunRow, list[LogFile]]]:
        """The chosen rows that have logs, with their logs."""
        rows = [row for row in self.rows() if row.state not in _WAITING]
        for batch in _batches(rows):
            found = parallel_map(lambda row: list_logs(self.store, row.id), batch, at_once=READERS)
            yield from ((row, logs) for row, logs in zip(batch, found, strict=True) if logs)

    def print_rows(
        self, rows: Sequence[RunRow], lines: int | None, *, all_attempts: bool = False
    ) -> Iterator[bytes]:
        """The labelled lines of these rows, whole or the last `lines` of each log."""
        for batch in _batches(rows):
            yield from self.lines_of(self.locate(batch, lines, all_attempts=all_attempts))

    def locate(self, rows: Sequence[RunRow], lines: int | None, *, all_attempts: bool) -> list[FoundLog]:
        """The wanted logs of at most BATCH rows, read already where they are short."""
        found = parallel_map(lambda row: self._logs_of(row, lines, all_attempts), rows, at_once=READERS)
        return [log for logs in found for log in logs]

    def lines_of(self, logs: Sequence[FoundLog]) -> Iterator[bytes]:
        """The labelled lines of these logs."""
        for label, log, start, data in logs:
            pieces = read_from(log, start, self.mask) if data is None else iter([data])
            yield from LogLines(label, self._wanted.pattern).of(pieces)

    def _logs_of(self, row: RunRow, lines: int | None, all_attempts: bool) -> list[FoundLog]:
        """The wanted logs of a row. Called by several threads."""
        since = self._wanted.since
        if since is not None and row.ended_at is not None and row.ended_at < since:
            return []
        files = list_logs(self.store, row.id)
        numbers = sorted({log.attempt for log in files}) if all_attempts else [self._wanted.choice.attempt]
        found = []
        for number in numbers:
            for file in self._chosen(row, files, self._wanted.choice._replace(attempt=number)):
                log, data = StoredLog(self.store, file.key), None
                start = 0 if since is None else self.lines_since(row, since).start_of(log)
                if lines is not None:
                    data = tail_of(log, lines, self.mask)
                elif file.size - start <= _SMALL:
                    data = b"".join(read_from(log, start, self.mask))
                found.append(FoundLog(self.label(row, file.rank), log, start, data))
        return found

    def _chosen(self, row: RunRow, files: Sequence[LogFile], choice: LogChoice) -> list[LogFile]:
        ranks = ranks_among(files, choice) if self._wanted.all_ranks else []
        if ranks:
            return ranks
        try:
            log = choose(row.id, files, choice)
        except UnknownName:
            return []
        return [] if log is None else [log]

    def lines_since(self, row: RunRow, since: float) -> LinesSince:
        """Where the lines since a moment begin in the logs of a row. What is not known is said of one row."""

        def emit(message: AnyMessage) -> None:
            if not self._has_said:
                self._session.emit(message)
            self._has_said = True

        return LinesSince(self.store, row, since, emit)

    def label(self, row: RunRow, rank: int | None) -> str:
        """What stands in brackets before a line: the row, with `all_ranks` of several also the rank."""
        shows_rank = self._wanted.all_ranks and rank is not None and row.nodes * row.procs > 1
        return f"{row.row_index}/{rank}" if shows_rank else str(row.row_index)


def _most_interesting(rows: Sequence[RunRow]) -> list[RunRow]:
    """MOST_ROWS of the rows, in order: those that failed, then those that run, then others."""

    def rank(row: RunRow) -> int:
        return _FIRST.index(State(row.state)) if row.state in _FIRST else len(_FIRST)

    return sorted(sorted(rows, key=rank)[:MOST_ROWS], key=lambda row: row.row_index or 0)


def parse_rows(text: str, group: RunRow) -> Callable[[int], bool]:
    """Whether an index is among `all`, `17` or `0-9,17`; UsageError for other texts and for rows that the
    group has not.
    """
    if text == "all":
        return lambda index: True
    found = [re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part) for part in text.split(",")]
    ranges = [range(int(one[1]), int(one[2] or one[1]) + 1) for one in found if one]
    if len(ranges) < len(found) or not all(ranges):
        raise UsageError(f"`{text}` names no rows", hint="write for example `--row 0-9,17` or `--row all`")
    last = max(one[-1] for one in ranges)
    if last >= group.size:
        raise UsageError(f"`{group.short_id}` has no row {last}", hint=f"its rows are 0 to {group.size - 1}")
    return lambda index: any(index in one for one in ranges)


def _batches(rows: Sequence[RunRow]) -> Iterator[Sequence[RunRow]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]
