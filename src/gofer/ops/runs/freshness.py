"""When a cluster cannot be asked, use the ledger's last answer and say how old it is.

`refresh` of `gofer.ops.runs.observe` raises when a cluster does not answer. The functions here warn through
`session.emit` instead, and the caller reads the ledger. The CLI and the Python API both use them. What only
shows runs waits for at most `ANSWER_S`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.core.states import State
from gofer.errors import ConfigError, CredentialError, GoferError, Unreachable
from gofer.ops.messages import Hint, Warning
from gofer.text import format_duration
from gofer.tracking.query import Filter, Query
from gofer.transport.ssh_errors import LoginNeeded

if TYPE_CHECKING:
    from gofer.ops.messages import AnyMessage
    from gofer.ops.runs.observe import Unanswered
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


# The longest time that a command which only shows runs waits for clusters, all of them together.
ANSWER_S = 3.0
# A view that stays is drawn again this often: it has ages, and the ledger has what other commands do.
DRAWN_S = 1.0
# The pause between questions of such a view, and where all runs are in the queue of this machine, which is a
# file. Questions take at most a tenth of the time.
_FIRST_S, _GROWTH, _LONGEST_S = 2.0, 1.5, 10.0
_LOCAL_S = 1.0
_PAUSE_FACTOR = 9


class NoAnswerYet(Unreachable):
    """A target or store has not answered within the time in which a command must end."""

    def __init__(self, name: str, limit_s: float) -> None:
        super().__init__(f"`{name}` did not answer within {limit_s:g} s")


class StaleRuns:
    """The targets that could not be asked: their runs are shown as the ledger has them. For one thread.

    `limit_s` is the time in which a store must answer, too.
    """

    def __init__(self, unanswered: Sequence[Unanswered] = (), limit_s: float | None = None) -> None:
        self._errors = {
            target_key(row): one.error.message
            for one in unanswered
            if isinstance(one.error, GoferError)
            for row in one.rows
        }
        self.limit_s = limit_s
        self._answers: dict[str, bool] = {}

    def why(self, row: RunRow) -> str | None:
        """Why the state of this run may be old, as a sentence; None when it is not."""
        return None if row.is_final else self._errors.get(target_key(row))

    def can_read(self, session: Session, row: RunRow, folder: RunFolder) -> bool:
        """Whether the store of the run can be read now. A store elsewhere is tried once, by listing the
        folder; a warning says that it does not answer.
        """
        if self.limit_s is None or row.store in self._answers:
            return self._answers.get(row.store, True)
        from gofer.storage.base import OnDisk  # `list runs` reads no store, and must stay instant

        is_here = isinstance(folder.store, OnDisk)
        self._answers[row.store] = is_here or (self.why(row) is None and _lists(folder, self.limit_s))
        if not self._answers[row.store]:
            session.emit(Warning(f"the store of `{row.target}` does not answer; its logs are not read"))
        return self._answers[row.store]


NOT_STALE = StaleRuns()


def _lists(folder: RunFolder, limit_s: float) -> bool:
    """Whether the folder can be listed within the time. An error is raised again where the folder is read."""
    from gofer.core.parallel import BackgroundCall  # loads threads, which `list runs` does not need

    try:
        BackgroundCall(lambda: folder.attempts).result(limit_s)
    except TimeoutError:
        return False
    except GoferError:
        pass
    return True


def target_key(row: RunRow) -> tuple[str, ...]:
    """One question to a cluster is about all runs with the same key."""
    return row.target, row.backend, row.store, row.origin


def refresh_active(session: Session, *, limit_s: float | None = None) -> StaleRuns:
    """Update the ledger if it has a run that has not ended. Calls no cluster when all runs have ended.

    `limit_s`: see `gofer.ops.runs.observe.TimedRefresh`.
    """
    has_open = session.ledger.select(_living(limit=1))
    return _refresh(session, None, limit_s) if has_open else StaleRuns(limit_s=limit_s)


def refresh_runs(session: Session, rows: Sequence[RunRow]) -> list[RunRow]:
    """The same runs as they are now, or as last observed when their cluster cannot be asked."""
    return refresh_shown(session, rows, limit_s=None)[0]


def refresh_shown(
    session: Session, rows: Sequence[RunRow], *, limit_s: float | None = ANSWER_S
) -> tuple[list[RunRow], StaleRuns]:
    """Like `refresh_runs`, also which of the runs are as last observed."""
    active = [row for row in rows if not row.is_final]
    if not active:
        return list(rows), StaleRuns(limit_s=limit_s)
    stale = _refresh(session, active, limit_s)
    return [session.ledger.get(row.id) or row for row in rows], stale


class RepeatedRefresh:
    """Updates the ledger again and again while a person watches runs; for one thread.

    The pause between questions grows while nothing changes. A cluster that does not answer keeps its one
    question: it delays one refresh by at most `ANSWER_S`, and later ones not at all.
    """

    def __init__(self, session: Session) -> None:
        # `list runs` uses this module and loads no backend when all runs have ended.
        from gofer.ops.runs.observe import TimedRefresh

        self._session = session
        self._refresh = TimedRefresh(session, ANSWER_S)
        self._unanswered: list[Unanswered] = []
        self._next = self._earliest = 0.0
        self._pause_s = _FIRST_S
        self._known: list[object] | None = None

    def refresh(self) -> list[AnyMessage]:
        """Ask the clusters, if it is time to; which states are old. Blocks for at most some seconds."""
        began = time.monotonic()
        if began >= self._next:
            self._unanswered = self._refresh.refresh()
            _raise_unexpected(self._unanswered)
            now = time.monotonic()
            self._pause_s = min(self._pause_s * _GROWTH, _LONGEST_S)
            # A cluster that does not answer takes time only once, so the others are not asked later.
            self._earliest = now if self._unanswered else now + _PAUSE_FACTOR * (now - began)
            self._next = max(now + self._pause_s, self._earliest)
        return _warnings(
            self._session, [one for one in self._unanswered if any(map(self._is_open, one.rows))]
        )

    def _is_open(self, row: RunRow) -> bool:
        """Whether the run has not ended by now; other commands write to the ledger too."""
        return not (self._session.ledger.get(row.id) or row).is_final

    def note(self, rows: Sequence[RunRow]) -> None:
        """Ask sooner when these runs, which are shown, have changed, and when all are of this machine."""
        from gofer.ops.runs.observe import QueueChanges

        now, facts = time.monotonic(), [what_changes(row) for row in rows]
        if facts != self._known:
            self._known, self._pause_s = facts, _FIRST_S
            self._next = max(min(self._next, now + _FIRST_S), self._earliest)
        if all(QueueChanges(self._session, [row]).are_seen for row in rows if not row.is_final):
            self._next = max(min(self._next, now + _LOCAL_S), self._earliest)


def what_changes(row: RunRow) -> object:
    """The facts of a run whose change a person wants to see."""
    return row.id, row.state, row.reason, row.counts, row.tags


class ActiveRuns:
    """All runs and groups that have not ended, refreshed again and again; for one thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._refresh = RepeatedRefresh(session)
        self._seen: dict[str, RunRow] = {}

    def refresh(self) -> tuple[list[RunRow], list[AnyMessage]]:
        """The runs, newest first, with those that have ended since the first refresh; and which of their
        states are old. Blocks.
        """
        warnings = self._refresh.refresh()
        living = self._session.ledger.select(_living())
        ids = {row.id for row in living}
        ended = [self._session.ledger.get(run_id) for run_id in self._seen if run_id not in ids]
        rows = [*living, *(row for row in ended if row is not None)]
        rows.sort(key=lambda row: row.submitted_at, reverse=True)
        self._seen = {row.id: row for row in rows}
        self._refresh.note(rows)
        return rows, warnings


def _living(limit: int | None = None) -> Query:
    # The open states are listed, because a query for "not final" would not use the index on the state.
    states = tuple(str(state) for state in State if not state.is_final)
    return Query(filters=(Filter("state", "=", states),), limit=limit)


def _refresh(session: Session, rows: Sequence[RunRow] | None, limit_s: float | None) -> StaleRuns:
    """Refresh. Even a broken settings file is only a warning: the ledger can be shown without it."""
    # When all runs have ended, `list runs` is instant since it loads no backend.
    from gofer.ops.runs.observe import TimedRefresh

    unanswered = TimedRefresh(session, limit_s).refresh(rows)
    _raise_unexpected(unanswered)
    for message in _warnings(session, unanswered):
        session.emit(message)
    if any(isinstance(one.error, NoAnswerYet) for one in unanswered):
        from gofer.ops.maintenance.late_answers import start  # rarely needed

        start(session)
    return StaleRuns(unanswered, limit_s)


def _raise_unexpected(unanswered: Sequence[Unanswered]) -> None:
    for one in unanswered:
        if not isinstance(one.error, GoferError):
            raise one.error


def _warnings(session: Session, unanswered: Sequence[Unanswered]) -> list[AnyMessage]:
    """One warning for each error: the machines of a target may have the same."""
    ages: dict[str, float] = {}
    causes: dict[str, Unanswered] = {}
    now = time.time()
    for one in unanswered:
        observed = max(row.observed_at or row.submitted_at for row in one.rows)
        words = _with_target(session, one)
        causes.setdefault(words, one)
        ages[words] = max(now - observed, ages.get(words, 0.0))
    found: list[AnyMessage] = []
    for words, one in causes.items():
        age = format_duration(ages[words])
        found.append(Warning(f"{words}; showing the state from {age} ago"))
        if isinstance(one.error, ConfigError):
            other = _other_project(session, one.rows[0])
            where = f"in `{other}`, " if other else ""
            found.append(Hint(f"{where}`gofer config check` lists every error of the settings"))
        elif isinstance(one.error, CredentialError | LoginNeeded) and one.error.hint:
            found.append(Hint(f"{one.error.hint}"))
    return found


def _with_target(session: Session, one: Unanswered) -> str:
    """The error, with the target that it is about, and with its project if that is another one."""
    words, row = str(one.error), one.rows[0]
    if f"`{row.target}`" in words:
        return words
    other = _other_project(session, row)
    return f"`{row.target}`{f' of `{other}`' if other else ''} cannot be asked: {words}"


def _other_project(session: Session, row: RunRow) -> str:
    """The project of the run, if it is not that of this folder; else empty."""
    try:
        return "" if row.project == session.project else row.project
    except ConfigError:
        return ""
