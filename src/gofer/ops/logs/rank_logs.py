"""Read or follow the logs of all ranks of a run as one stream of lines, each with its rank: `[3] …`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gofer.core.secrets.mask import MaskedPieces, SecretMask
from gofer.errors import StoreError
from gofer.ops.logs.labelled_lines import LogLines
from gofer.ops.logs.log_bytes import LogBytes, StoredLog
from gofer.ops.logs.log_follow import STORE, Followed, Follower, FollowPatience, OutageNotice
from gofer.ops.logs.log_reader import LogReader, mask_of
from gofer.ops.logs.log_sources import LogChoice, StoredLogs
from gofer.ops.runs.run_folder import list_logs

if TYPE_CHECKING:
    from gofer.ops.runs.live_status import LiveReport
    from gofer.ops.runs.run_folder import LogFile
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

T = TypeVar("T")

_GROWTH = 1.5
# A progress bar that has no end of line yet is shown after this time, and again.
_PROGRESS_S = 10.0


class RankLogs:
    """The logs of all ranks of one run, of one node or attempt if chosen; for one thread.

    The errors are those of LogReader. Secrets of the run are masked. A run without logs of ranks has the log
    that LogReader shows, without labels.
    """

    def __init__(
        self,
        session: Session,
        row: RunRow,
        choice: LogChoice,
        pattern: re.Pattern[str] | None = None,
        since: float | None = None,
    ) -> None:
        """The rank of `choice` is ignored. `pattern` and `since` choose lines."""
        self._session = session
        self._row = row
        self._choice = choice._replace(rank=0)
        self._pattern = pattern
        self._since = since
        self._reader = LogReader(session, row)

    def read(self, lines: int | None = None) -> Iterator[bytes]:
        """All lines as they are now, or the last lines of each rank; one rank after another."""
        chosen = self._choices()
        for choice in chosen or [self._choice]:
            label = str(choice.rank) if chosen else ""
            if lines is None:
                pieces = self._reader.read(choice, since=self._since)
            else:
                pieces = iter([self._reader.tail(choice, lines=lines)])
            yield from LogLines(label, self._pattern).of(pieces)

    def _choices(self) -> list[LogChoice]:
        files = ranks_among(self._reader.files(), self._choice)
        return [LogChoice(log.rank or 0, log.node, log.attempt) for log in files]

    def follow(
        self,
        *,
        lines: int | None,
        show_setup: Callable[[bytes], None] | None = None,
        report: LiveReport | None = None,
    ) -> Iterator[bytes]:
        """The last `lines` lines of each rank (None: all, from the first attempt), then new lines of all
        ranks as they come, until the run is over. Otherwise like `LogReader.follow`.
        """
        if not self._reader.is_stored:
            pieces = self._reader.follow(self._choice, lines=lines, show_setup=show_setup, report=report)
            yield from LogLines("", self._pattern).of(pieces)
            return
        has_output = False
        for piece in self._followed(lines, show_setup, report):
            has_output = True
            if report is not None:
                report.note_output()
            yield piece
        if not has_output:
            # A run that never started may have a log of its service.
            yield from LogLines("", self._pattern).of(LogReader(self._session, self._row).read(self._choice))

    def _followed(
        self, lines: int | None, show_setup: Callable[[bytes], None] | None, report: LiveReport | None
    ) -> Iterator[bytes]:
        """The same, with an empty piece for lines that do not match."""
        row, mask = self._row, mask_of(self._session, self._row)
        base = StoredLogs(self._session, row).followed(self._choice, mask, show_setup, report)
        if self._since is not None:
            base = base._replace(begin_at=self._reader.lines_since(self._since).begin_at)
        rounds = LogRounds(self._session.runs_in(row.store), row.id, base)
        members = [FollowedLog(Follower(rounds.of_setup(), lines=lines), mask, LogLines("", self._pattern))]
        for rank in range(row.nodes * row.procs):
            follower = Follower(rounds.of_rank(rank, self._choice.node), lines=lines)
            members.append(FollowedLog(follower, mask, LogLines(str(rank), self._pattern)))
        yield from follow_together(members, rounds.begin)


def ranks_among(files: Sequence[LogFile], choice: LogChoice) -> list[LogFile]:
    """The logs of all ranks in the chosen attempt, or in the last one, on the chosen node, or on all."""
    number = choice.attempt or max((log.attempt for log in files), default=0)
    return [
        log
        for log in files
        if log.rank is not None and log.attempt == number and choice.node in (None, log.node)
    ]


class FollowedLog:
    """One of several logs that are followed together."""

    def __init__(self, follower: Follower, mask: SecretMask, lines: LogLines) -> None:
        self.follower = follower
        self._mask = mask
        self._pieces = MaskedPieces(mask)
        self._lines = lines
        self._attempt = follower.attempt
        self._shown_at = time.monotonic()

    def step(self) -> Iterator[bytes]:
        """The lines that are new now; empty bytes for new lines that do not match."""
        for piece in self.follower.step():
            if self.follower.attempt != self._attempt:
                yield self._end()
                self._attempt = self.follower.attempt
            lines = self._lines.add(self._pieces.add(piece))
            self._shown_at = time.monotonic() if lines else self._shown_at
            yield lines
        if time.monotonic() - self._shown_at >= _PROGRESS_S:
            self._shown_at = time.monotonic()
            if progress := self._lines.progress():
                yield progress
        if self.follower.is_finished and (last := self._end()):
            yield last

    def _end(self) -> bytes:
        """The end of the log of an attempt."""
        rest, self._pieces = self._pieces.rest(), MaskedPieces(self._mask)
        return self._lines.add(rest) + self._lines.rest()


def follow_together(
    members: Sequence[FollowedLog], begin: Callable[[], None], patience: FollowPatience = STORE
) -> Iterator[bytes]:
    """The new lines of all logs as they come, until nothing more will come. Blocks. `begin` is called before
    each round.
    """
    left, pause = list(members), patience.shortest_s
    while True:
        begin()
        has_grown = False
        for member in left:
            for piece in member.step():
                has_grown = True
                yield piece
            member.follower.skip_no_later_lines()
        left = [member for member in left if not member.follower.is_finished]
        if not left:
            return
        pause = patience.shortest_s if has_grown else pause
        time.sleep(pause)
        pause = min(pause * _GROWTH, patience.longest_s)


class LogRounds:
    """What the followers of the ranks of a run ask about it, answered once in each round.

    The logs are listed after the question whether the run is over, so that no line before its end is missed.
    """

    def __init__(self, store: Store, run_id: str, base: Followed) -> None:
        self._store = store
        self._run_id = run_id
        self._answers: dict[object, Any] = {}
        self._ask_attempts, self._ask_over = base.attempts, base.is_over
        notice = base.notice or OutageNotice(base.emit, base.patience.words)
        self._base = base._replace(attempts=self._attempts, is_over=self._is_over, notice=notice)

    def begin(self) -> None:
        """Begin a round: forget the answers."""
        self._answers.clear()

    def of_setup(self) -> Followed:
        """How set-ups are followed. If the last one failed, the rest of its log is what is followed."""
        view = self._base.setup
        shown = None if view is None else view._replace(locate=self._setup)

        def locate(attempt: int, is_over: bool) -> LogBytes | None:
            has_ranks = any(log.rank is not None for log in self._logs(attempt))
            return self._setup(attempt) if is_over and not has_ranks else None

        return self._base._replace(locate=locate, setup=shown)

    def of_rank(self, rank: int, node: int | None, *, or_first: bool = False) -> Followed:
        """How the log of a rank is followed, if it is on the node; with `or_first`, rank 0 means the first
        rank of the node.
        """
        is_any = or_first and rank == 0 and node is not None

        def locate(attempt: int, is_over: bool) -> LogBytes | None:
            near = (log for log in self._logs(attempt) if log.rank is not None and node in (None, log.node))
            found = (log for log in near if is_any or log.rank == rank)
            return next((_Listed(StoredLog(self._store, log.key), log.size) for log in found), None)

        followed = self._base._replace(locate=locate, setup=None, emit=lambda message: None, is_fixed=False)
        begin_at = followed.begin_at
        return followed if begin_at is None else followed._replace(begin_at=_unwrapped(begin_at))

    def _attempts(self) -> Sequence[int]:
        return self._once("attempts", self._ask_attempts)

    def _is_over(self, attempt: int) -> bool:
        return self._once(("over", attempt), lambda: self._ask_over(attempt))

    def _setup(self, attempt: int) -> LogBytes | None:
        found = (log for log in self._logs(attempt) if log.kind == "setup")
        return next((StoredLog(self._store, log.key) for log in found), None)

    def _logs(self, attempt: int) -> list[LogFile]:
        return self._once(("logs", attempt), lambda: list_logs(self._store, self._run_id, attempt))

    def _once(self, question: object, ask: Callable[[], T]) -> T:
        """The answer of this round. A store that does not answer is not asked again in the same round."""
        if question not in self._answers:
            try:
                self._answers[question] = ask()
            except StoreError as error:
                self._answers[question] = error
        answer: T | StoreError = self._answers[question]
        if isinstance(answer, StoreError):
            raise answer
        return answer


def _unwrapped(begin_at: Callable[[LogBytes], int]) -> Callable[[LogBytes], int]:
    """`begin_at` for logs as they were listed."""
    return lambda log: begin_at(log.log if isinstance(log, _Listed) else log)


class _Listed(NamedTuple):
    """A log as it was listed: a request for bytes behind its size is saved."""

    log: StoredLog
    listed: int

    @property
    def chunk(self) -> int:
        return self.log.chunk

    @property
    def first_step(self) -> int:
        return self.log.first_step

    def size(self) -> int:
        return self.listed

    def read(self, start: int, length: int) -> bytes:
        return self.log.read(start, length) if start < self.listed else b""
