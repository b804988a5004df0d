"""Ask clusters about runs, with one batched call per target, and write the answers to the ledger."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.backends.base import RunRef
from gofer.core.parallel import BackgroundCall
from gofer.core.states import Reason, State
from gofer.errors import CredentialError, Interrupted, StoreError, Unreachable
from gofer.model.run import Observation
from gofer.ops.maintenance.repair import repair, stop_unwanted
from gofer.ops.messages import Message
from gofer.ops.runs.cluster_watch import ClusterWatch
from gofer.ops.runs.end_records import is_unrecorded, record_ends
from gofer.ops.runs.freshness import NoAnswerYet, target_key
from gofer.ops.runs.merged_status import settled
from gofer.ops.submission.send import is_here
from gofer.text import count_runs
from gofer.tracking.rows import ACTIVE
from gofer.transport.activity import activity

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 1.0
# Pauses can be longer when a change of the queue ends them early.
_LONGEST_WATCH_S = 2.0
SILENCE_S = 30.0
_LOOK_S = 0.15
_FILES = ("queue.db", "queue.db-wal")


class Unanswered(NamedTuple):
    """Runs of one target whose states are not known now, and why."""

    rows: list[RunRow]
    error: Exception


class _Answer(NamedTuple):
    """What a cluster and the folders of the runs say, by run id; `problem` is why the answer is not whole.
    `proven` are the runs that have ended by their folders, but not by the cluster.
    """

    seen: Mapping[str, Observation]
    problem: Unreachable | None = None
    proven: Sequence[RunRef] = ()


def refresh(session: Session, rows: Sequence[RunRow] | None = None) -> None:
    """Ask the backends about these runs, or about every open run. Runs that have ended are skipped. Blocks.

    A run that its backend does not know is repaired: see `gofer.ops.maintenance.repair`. BackendError and
    StoreError are raised after the other targets were asked.
    """
    for one in TimedRefresh(session, None).refresh(rows):
        raise one.error


class TimedRefresh:
    """Refreshes runs within a time limit, once or repeatedly. For one thread.

    gofer asks all targets at the same time. A target that has not answered when the time is over is one that
    could not be asked. It is not asked again before it has answered, and the next refresh uses that answer.
    A target that answered with an error is not asked again for `SILENCE_S`. Without a limit, it asks one
    target after the other.
    """

    def __init__(self, session: Session, limit_s: float | None) -> None:
        self._session = session
        self._limit_s = limit_s
        self._late: dict[tuple[str, ...], _Question] = {}
        self._failed: dict[tuple[str, ...], tuple[float, Exception]] = {}

    def refresh(self, rows: Sequence[RunRow] | None = None) -> list[Unanswered]:
        """Refresh these runs, or all that have not ended; the targets that could not be asked. Blocks."""
        active = self._session.ledger.active() if rows is None else expand(self._session, rows)
        resting, groups = self._divide(by_backend(active))
        known = [self._late.pop(target_key(group[0]), None) for group in groups]
        asked = [
            late or _Question(self._session, group, self._limit_s)
            for late, group in zip(known, groups, strict=True)
        ]
        problems = resting
        for question, group in zip(asked, groups, strict=True):
            try:
                answer, rows = question.answer(), question.rows_of(group)
                if rows:
                    _record(self._session, rows, answer)
            except Exception as error:
                problems.append(Unanswered(group, error))
                if not question.is_open:
                    self._failed[target_key(group[0])] = time.monotonic() + SILENCE_S, error
            if question.is_open:
                self._late[target_key(group[0])] = question
        return problems

    def _divide(self, groups: list[list[RunRow]]) -> tuple[list[Unanswered], list[list[RunRow]]]:
        """The groups of targets that failed not long ago, with their errors, and the groups to ask about."""
        now = time.monotonic()
        self._failed = {key: one for key, one in self._failed.items() if now < one[0]}
        errors = [(group, self._failed.get(target_key(group[0]))) for group in groups]
        resting = [Unanswered(group, failed[1]) for group, failed in errors if failed is not None]
        return resting, [group for group, failed in errors if failed is None]


class _Question:
    """The question to one target about its runs. With a time limit, a thread asks other machines at once."""

    def __init__(self, session: Session, rows: list[RunRow], limit_s: float | None) -> None:
        self.rows = rows
        self._session = session
        self._limit_s = limit_s or 0.0
        self._ends_at = time.monotonic() + self._limit_s
        is_bounded = limit_s is not None and not registry.runs_here(rows[0].backend)
        self._call = BackgroundCall(self._ask_in_thread) if is_bounded else None

    @property
    def is_open(self) -> bool:
        """Whether there is no answer yet."""
        return self._call is not None and not self._call.has_ended

    def rows_of(self, group: list[RunRow]) -> list[RunRow]:
        """The runs of the question as they are now. Others may have been submitted, or have ended, since."""
        if group is self.rows:
            return group
        ids = {row.id for row in self.rows}
        return [row for row in group if row.id in ids]

    def answer(self) -> _Answer:
        """Blocks. Unreachable when the time is over."""
        if self._call is None:
            return _ask(self._session, self.rows)
        try:
            return self._call.result(self._ends_at - time.monotonic())
        except TimeoutError:
            raise NoAnswerYet(self.rows[0].target, self._limit_s) from None

    def _ask_in_thread(self) -> _Answer:
        with self._session.for_thread() as session:
            return _ask(session, self.rows)


def by_backend(rows: Sequence[RunRow]) -> list[list[RunRow]]:
    """The runs grouped by backend."""
    found: dict[tuple[str, ...], list[RunRow]] = {}
    for row in rows:
        found.setdefault(target_key(row), []).append(row)
    return list(found.values())


def expand(session: Session, rows: Sequence[RunRow]) -> list[RunRow]:
    """Replace groups by their rows that have not ended."""
    found: dict[str, RunRow] = {}
    for row in rows:
        members = session.ledger.rows_of(row.id, ACTIVE) if row.kind == "group" else [row]
        found.update((one.id, one) for one in members if not one.is_final)
    return list(found.values())


def _ask(session: Session, rows: list[RunRow]) -> _Answer:
    """Ask the cluster of these runs, and read their folders where these say more. Does not change the ledger;
    an end that no node could record is written to the store.
    """
    runs_here = registry.runs_here(rows[0].backend)
    here = [row for row in rows if not runs_here or is_here(session, row.submitter)]
    backend = session.backend_of(rows[0])
    refs = [RunRef(row.id, row.group_id, row.row_index) for row in here]
    problem: Unreachable | None = None
    with activity(f"asking `{rows[0].target}` for the state of {count_runs(len(rows))}"):
        try:
            reported = backend.observe(refs) if here else {}
        except Unreachable as error:
            problem, reported = error, error.answers
        seen = reported
        if backend.capabilities.has_ends_in_folder:
            seen, unproven = settled(session, rows, reported)
            record_ends(session, rows, {one: seen[one] for one in unproven if is_unrecorded(seen[one])})
    proven = [ref for ref in refs if _is_over(seen, ref) and not _is_over(reported, ref)]
    return _Answer(seen, problem, proven)


def _is_over(observations: Mapping[str, Observation], run: RunRef) -> bool:
    found = observations.get(run.id)
    return found is not None and found.state.is_final


def _record(session: Session, rows: list[RunRow], answer: _Answer) -> None:
    """Write the answer to the ledger, and act on it. Unreachable when it is not whole."""
    seen, backend, wanted = answer.seen, session.backend_of(rows[0]), {row.id for row in rows}
    # First, because gofer does not ask again about a run that has ended in the ledger.
    backend.clear_up(answer.proven)
    session.ledger.apply([one for one in seen.values() if one.run_id in wanted], time.time(), rows)
    stop_unwanted(session, rows, seen, backend)
    if answer.problem is not None:
        _give_up(session, [row for row in rows if row.id not in seen], backend, answer.problem)
        raise answer.problem
    missing = [row for row in rows if row.id not in seen]
    if missing:
        repair(session, missing, backend)


def _give_up(session: Session, rows: Sequence[RunRow], backend: Backend, problem: Unreachable) -> None:
    """Mark runs as lost whose machine has not answered for longer than the target's patience."""
    patience_s = backend.capabilities.patience_s
    now = time.time()
    silent = [row for row in rows if now - (row.observed_at or row.submitted_at) > patience_s]
    detail = f"{problem.message}, for longer than the target's patience"
    lost = [
        Observation(run_id=row.id, state=State.LOST, reason=Reason.NODE_FAILURE, detail=detail)
        for row in silent
    ]
    session.ledger.apply(lost, now)


class PatientRefresh:
    """Refreshes runs repeatedly, and continues while the connection is lost.

    The first refresh must succeed, unless `heard`, so that a person who types a command learns about an error
    at once. Later, a lost connection is reported once, and so is its return.
    """

    def __init__(self, session: Session, *, heard: bool = False) -> None:
        self._session = session
        self._heard = heard
        self._said: str | None = None
        self._watch = ClusterWatch()

    def end(self) -> None:
        """Nobody waits for the runs any longer. Does not block."""
        self._watch.end()

    def refresh(self, rows: Sequence[RunRow]) -> bool:
        """Refresh the runs; whether the cluster answered. An error of the first refresh passes through."""
        try:
            refresh(self._session, rows)
            self._watch.begin(self._session, rows)
        except (Unreachable, CredentialError, StoreError) as error:
            if not self._heard:
                raise
            if self._said != error.message:
                self._session.emit(
                    Message(f"{error.message}; still waiting" + (f": {error.hint}" if error.hint else ""))
                )
            self._said = error.message
            return False
        if self._said is not None:
            self._session.emit(Message("connection restored"))
        self._heard, self._said = True, None
        return True


def wait(
    session: Session,
    ids: Sequence[str],
    *,
    timeout_s: float | None,
    on_answer: Callable[[Sequence[RunRow]], None] | None = None,
    heard: bool = False,
) -> list[RunRow]:
    """Block until all these runs or groups have ended; Interrupted when `timeout_s` is over before that.

    `on_answer` gets the runs after every question. A cluster that does not answer is reported once and asked
    again, except when the first question fails. `heard`: the cluster has already answered an earlier
    question.
    """
    patient = PatientRefresh(session, heard=heard)
    try:
        return _wait(session, ids, patient, timeout_s, on_answer)
    finally:
        patient.end()


def _wait(
    session: Session,
    ids: Sequence[str],
    patient: PatientRefresh,
    timeout_s: float | None,
    on_answer: Callable[[Sequence[RunRow]], None] | None,
) -> list[RunRow]:
    changes = QueueChanges(session, _read_rows(session, ids))
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    states: dict[str, str] = {}
    pause_s = _FIRST_WAIT_S
    while True:
        began = time.monotonic()
        changes.mark()
        rows = _read_rows(session, ids)
        answered = patient.refresh([row for row in rows if not row.is_final])
        rows = _read_rows(session, ids)
        for row in rows:
            if states.get(row.id) != row.state:
                states[row.id] = row.state
                pause_s = _FIRST_WAIT_S
        if on_answer is not None:
            on_answer(rows)
        if all(row.is_final for row in rows):
            return rows
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            waiting = [row.short_id for row in rows if not row.is_final]
            raise Interrupted(
                f"still not ended after {timeout_s:g} s: {', '.join(waiting)}",
                hint="`gofer wait` again, or without `--timeout`",
            )
        # A large group is refreshed less often: refreshes take at most a tenth of the time.
        longest_s = _LONGEST_WATCH_S if changes.are_seen else _LONGEST_WAIT_S
        longest_s = longest_s if answered else SILENCE_S
        least_s = 9 * (now - began)
        pause_s = min(max(pause_s * 1.3, least_s), longest_s)
        left_s = pause_s if deadline is None else max(0.0, min(pause_s, deadline - now))
        changes.sleep(left_s, least_s=least_s)


def _read_rows(session: Session, ids: Sequence[str]) -> list[RunRow]:
    return [row for one in ids if (row := session.ledger.get(one)) is not None]


class QueueChanges:
    """Detects changes of the queue's files since `mark` by their times, which takes microseconds.

    Nothing is checked for runs that are not in the queue of this machine.
    """

    def __init__(self, session: Session, rows: Iterable[RunRow]) -> None:
        backends = {row.backend for row in rows if is_here(session, row.submitter)}
        is_local = any(map(registry.runs_here, backends))
        self._paths = [session.paths.queue_home / name for name in _FILES] if is_local else []
        self.are_seen = is_local
        self.mark()

    def mark(self) -> None:
        """Changes from now on count. Call this before the queue is read."""
        self._seen = self._stamps()

    def sleep(self, longest_s: float, *, least_s: float) -> None:
        """Block for `least_s`, and then until there is a change or `longest_s` is over."""
        if not self._paths:
            time.sleep(longest_s)
            return
        end = time.monotonic() + longest_s
        time.sleep(min(least_s, longest_s))
        while (left_s := end - time.monotonic()) > 0 and self._stamps() == self._seen:
            time.sleep(min(_LOOK_S, left_s))

    def _stamps(self) -> list[int]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
