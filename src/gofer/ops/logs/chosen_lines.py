"""The lines that a person chose of a run or group: of one log, of all ranks, or of the rows.

The command line and the Python API both use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import UsageError
from gofer.ops.logs.group_follow import GroupFollower
from gofer.ops.logs.group_logs import GroupLogs, parse_rows
from gofer.ops.logs.labelled_lines import LogLines, compile_pattern
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import MAIN_LOG, LogChoice
from gofer.ops.logs.log_times import parse_since
from gofer.ops.logs.rank_logs import RankLogs
from gofer.ops.messages import Message
from gofer.ops.runs.freshness import refresh_runs

if TYPE_CHECKING:
    import re

    from gofer.ops.runs.live_status import LiveReport
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

ALL = "all"


class LineChoice(NamedTuple):
    """Which lines are wanted.

    `choice` is about the logs of a run, or of each row of a group; with `all_ranks`, its rank is ignored.
    `pattern` and `since` choose lines. `rows` says which rows of a group are wanted, by their index; None for
    no choice.
    """

    choice: LogChoice = MAIN_LOG
    all_ranks: bool = False
    pattern: re.Pattern[str] | None = None
    rows: Callable[[int], bool] | None = None
    since: float | None = None


def choose_lines(
    row: RunRow,
    *,
    rank: int | str = 0,
    node: int | None = None,
    attempt: int | None = None,
    grep: str | None = None,
    since: str | None = None,
    rows: str | None = None,
) -> LineChoice:
    """The choice in the words of a person: see `gofer logs --help`; UsageError for words that mean nothing.
    `rank` is a number or `all`.
    """
    if rows is not None and row.kind != "group":
        raise UsageError(f"`{row.short_id}` is a single run without rows", hint="leave out `--row`")
    return LineChoice(
        LogChoice(0 if isinstance(rank, str) else rank, node, attempt),
        rank == ALL,
        None if grep is None else compile_pattern(grep),
        None if rows is None else parse_rows(rows, row),
        None if since is None else parse_since(since),
    )


class ChosenLines:
    """The chosen lines of one run or group; for one thread. The errors are those of LogReader.

    Of one log without a pattern, the bytes are unchanged; otherwise whole lines, those of several logs with
    labels. Secrets are masked.
    """

    def __init__(self, session: Session, row: RunRow, wanted: LineChoice) -> None:
        self._session = session
        self._row = row
        self._wanted = wanted

    def read(self, lines: int | None = None) -> Iterator[bytes]:
        """The lines as they are now, or the last `lines` of each log. Of many rows only some, with a message,
        unless rows or lines are chosen.
        """
        wanted = self._wanted
        if self._row.kind == "group":
            (group,) = refresh_runs(self._session, [self._row])
            yield from GroupLogs(self._session, group, wanted).read(lines)
        elif wanted.all_ranks:
            yield from self._rank_logs().read(lines)
        else:
            reader = self._reader()
            if lines is None:
                yield from self._matching(reader.read(wanted.choice, since=wanted.since))
            else:
                yield from self._matching(iter([reader.tail(wanted.choice, lines=lines)]))

    def follow(
        self,
        *,
        lines: int | None = None,
        from_start: bool = False,
        show_setup: Callable[[bytes], None] | None = None,
        report: LiveReport | None = None,
    ) -> Iterator[bytes]:
        """The last `lines` lines (None: all), then new ones as they come, until the run or all rows have
        ended. Blocks. `from_start`: the run was just submitted. `show_setup` and `report`: see
        `LogReader.follow`.
        """
        wanted = self._wanted
        if self._row.kind == "group":
            follower = GroupFollower(self._session, self._row, wanted)
            return follower.follow(lines=lines, from_start=from_start, report=report)
        if wanted.all_ranks:
            return self._rank_logs().follow(lines=lines, show_setup=show_setup, report=report)
        return self._matching(
            self._reader().follow(
                wanted.choice, lines=lines, show_setup=show_setup, report=report, since=wanted.since
            )
        )

    def _rank_logs(self) -> RankLogs:
        wanted = self._wanted
        return RankLogs(self._session, self._row, wanted.choice, wanted.pattern, wanted.since)

    def _reader(self) -> LogReader:
        reader = LogReader(self._session, self._row)
        if self._wanted.since is not None and not reader.is_stored:
            self._session.emit(Message("when the lines of this log were written is not known; all are shown"))
        return reader

    def _matching(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        pattern = self._wanted.pattern
        return pieces if pattern is None else LogLines("", pattern).of(pieces)
