"""Explain why a run waits, what a running run does, why a run ended, and what to type next.

The answer comes from the ledger and the run's folder. Only about a run that waits, or that no node has begun,
the cluster is called.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.base import Waiting
from gofer.core.states import Reason, State
from gofer.errors import StoreError, UnknownName
from gofer.model.ids import short_id
from gofer.ops.causes.cause import FailedRun, again
from gofer.ops.causes.project_paths import in_project
from gofer.ops.files.results import last_durable
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.runs.child_runs import blocked_child, explain_child
from gofer.ops.runs.failures import explain, find_first_failure, signal_of
from gofer.ops.runs.node_reports import node_usage, progress
from gofer.ops.runs.run_records import RunRecords, elapsed_s
from gofer.ops.runs.shell import has_shell
from gofer.ops.runs.wait_reason import WAITING, not_starting_for, waiting_for
from gofer.ops.submission import gpu_oversight
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.text import format_time, quote_command

if TYPE_CHECKING:
    from gofer.model.run import RunRecord
    from gofer.ops.causes.cause import Cause
    from gofer.ops.runs.failures import FirstFailure
    from gofer.ops.runs.run_folder import Heartbeat, RunFolder
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


_ENDED_BADLY = (State.FAILED.value, State.LOST.value)
_MOST_REASONS = 12
# Each cause may read the project.
_MOST_CAUSES = 3
_TAIL_LINES = 20
_BADLY = (State.FAILED.value, State.LOST.value, State.CANCELLED.value)


class LifeSigns(NamedTuple):
    """The age of a run's last heartbeat and last log line, and the last reading of each node."""

    beat_age_s: float | None
    log_age_s: float | None
    beats: dict[int, Heartbeat]


class ReasonCount(NamedTuple):
    """How many runs of a group have the same state and reason, one of them as an example, and the end of its
    log.
    """

    state: str
    reason: str | None
    why: str | None
    runs: int
    example: str
    tail: tuple[str, ...]


class Why(NamedTuple):
    """The answer for one run or group. `words` is the reason; None when there is nothing to explain.

    `log_tail` is the end of the log of rank 0, for a run that failed although no rank failed first. `durable`
    says up to which time the store has the command's files, if it does not have all.
    """

    row: RunRow
    words: str | None
    elapsed_s: float | None
    waiting: Waiting | None
    life: LifeSigns | None
    failure: FirstFailure | None
    reasons: tuple[ReasonCount, ...]
    next: tuple[str, ...]
    service_tail: tuple[str, ...] = ()
    log_tail: tuple[str, ...] = ()
    durable: str = ""

    def to_json(self) -> dict[str, object]:
        """Plain JSON values; times in RFC 3339, ages and durations in seconds."""
        row, failure, life = self.row, self.failure, self.life
        return {
            "id": row.id,
            "short_id": row.short_id,
            "kind": row.kind,
            "state": row.state,
            "reason": row.reason,
            "why": self.words,
            "exit_code": row.exit_code,
            "started_at": format_time(row.started_at),
            "ended_at": format_time(row.ended_at),
            "elapsed_s": self.elapsed_s,
            "attempts": len(row.attempts),
            "ahead": self.waiting.ahead if self.waiting else None,
            "estimated_start": format_time(self.waiting.estimate) if self.waiting else None,
            "heartbeat_age_s": life.beat_age_s if life else None,
            "log_age_s": life.log_age_s if life else None,
            "first_failure": None
            if failure is None
            else {**failure._asdict(), "at": format_time(failure.at)},
            "durable": self.durable or None,
            "last_lines": list(self.log_tail),
            "service_log": list(self.service_tail),
            "reasons": [one._asdict() for one in self.reasons],
            "next": list(self.next),
        }


def why(session: Session, row: RunRow) -> Why:
    """The answer for a run, as it is in the ledger. Refresh the run first.

    A store or cluster that does not answer is mentioned in the words, and is not an error.
    """
    if row.kind == "group":
        return _why_group(session, row)
    record = RunRecords(session).of(row)
    waiting, life, failure, words, durable, child, folder = None, None, None, None, "", None, None
    try:
        if row.state in WAITING:
            waiting = waiting_for(session, row, record)
        elif not is_adopted(row):
            folder = session.run_folder(row)
            if row.is_final:
                failure = find_first_failure(folder, row)
            else:
                life, words = _life_signs(folder), progress(folder, row)
                child = blocked_child(session, row)
                waiting = _not_started(session, row, folder)
            durable = last_durable(folder, row)
        words = waiting.why if waiting else explain(row, record, failure) or words
    except StoreError as error:
        words = "; ".join(one for one in (explain(row, record), error.message) if one)
    end = _log_tail(session, row) if failure is None and row.state in _ENDED_BADLY else ()
    cause = _cause(session, row, record, failure, end, folder)
    if record is not None:
        end = in_project(session, record, end)
        failure = failure and failure._replace(tail=in_project(session, record, failure.tail))
    words = "; ".join(one for one in (words, cause.words if cause else "") if one) or None
    if child is not None:
        words = "; ".join(one for one in (words, explain_child(row, child)) if one)
    steps = (
        *_against_waiting(waiting, child),
        *next_steps(row, failure, cause, has_shell=has_shell(session, row, record)),
    )
    is_unsaid = failure is None and not end and row.state == State.FAILED
    service_end = _service_tail(session, row) if is_unsaid else ()
    return Why(
        row, words, elapsed_s(row), waiting, life, failure, (), _once(steps), service_end, end, durable
    )


def _once(steps: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(steps))


def _cause(
    session: Session,
    row: RunRow,
    record: RunRecord | None,
    failure: FirstFailure | None,
    end: Sequence[str],
    folder: RunFolder | None,
) -> Cause | None:
    """`folder` is None when the store does not answer."""
    if record is None or row.state not in _ENDED_BADLY or is_adopted(row):
        return None
    from gofer.ops.causes.find import find_cause  # loads what takes snapshots

    lines = (*(failure.tail if failure else ()), *end)
    run = FailedRun(session, row, record, lines, None if folder is None else _peak_mib(folder, row))
    return find_cause(run, None if failure is None else signal_of(failure))


def _peak_mib(folder: RunFolder, row: RunRow) -> float | None:
    try:
        usage = node_usage(folder, row)
    except StoreError:
        return None
    return max((one.rss_peak_mib for one in usage if one.rss_peak_mib is not None), default=None)


def _log_tail(session: Session, row: RunRow) -> tuple[str, ...]:
    """The last lines of rank 0, or of set-up if no rank was started; empty when there is no log."""
    if is_adopted(row):
        return ()
    try:
        data = LogReader(session, row).stored_tail(lines=_TAIL_LINES)
    except (StoreError, UnknownName):
        return ()
    return tuple(data.decode("utf-8", "replace").splitlines())


def _service_tail(session: Session, row: RunRow) -> tuple[str, ...]:
    """The end of the service's log, for a run that failed before any rank could write a log."""
    return LogReader(session, row).service_tail(_TAIL_LINES)


def _life_signs(folder: RunFolder) -> LifeSigns:
    if not folder.attempts:
        return LifeSigns(None, None, {})
    attempt = folder.attempts[-1]
    now, beats, written = time.time(), folder.heartbeats(attempt), folder.last_written(attempt)
    return LifeSigns(
        min((max(now - beat.at, 0.0) for beat in beats.values()), default=None),
        None if written is None else max(now - written, 0.0),
        beats,
    )


def _why_group(session: Session, row: RunRow) -> Why:
    rows = session.ledger.rows_of(row.id)
    record = RunRecords(session).of(row)
    first = next((one for one in rows if one.state in WAITING), None)
    waiting = None if first is None else waiting_for(session, first, record)
    reasons = _count(session, rows, record, waiting)
    failed = next((one.example for one in reasons if one.state in _ENDED_BADLY), None)
    steps = (*((f"gofer why {failed}",) if failed else ()), *next_steps(row, None, has_shell=False))
    return Why(row, None, elapsed_s(row), waiting, None, None, reasons, steps)


def _count(
    session: Session, rows: Sequence[RunRow], record: RunRecord | None, waiting: Waiting | None
) -> tuple[ReasonCount, ...]:
    """The reasons with their counts: the most frequent first, successes last."""
    found: dict[tuple[str, str | None, str | None], list[RunRow]] = {}
    for one in rows:
        words = waiting.why if waiting and one.state in WAITING else explain(one, record)
        found.setdefault((one.state, one.reason, words), []).append(one)
    order = sorted(found.items(), key=lambda one: (one[0][0] == State.SUCCEEDED, -len(one[1])))
    return tuple(
        _counted(session, same, record, key, is_first=place < _MOST_CAUSES)
        for place, (key, same) in enumerate(order[:_MOST_REASONS])
    )


def _counted(
    session: Session,
    same: Sequence[RunRow],
    record: RunRecord | None,
    key: tuple[str, str | None, str | None],
    *,
    is_first: bool,
) -> ReasonCount:
    """The count, with the first run as the example: its log may say more than the ledger, such as a missing
    CUDA. The cause is looked for if the reason is among the first ones.
    """
    (state, reason, words), example = key, same[0]
    folder, failure = _first_failure(session, example)
    tail = failure.tail if failure else ()
    if gpu_oversight.explains(record, tail):
        words = gpu_oversight.with_cure(words or state)
    cause = _cause(session, example, record, failure, (), folder) if is_first else None
    words = "; ".join(one for one in (words, cause.words if cause else "") if one) or None
    tail = in_project(session, record, tail) if record else tail
    return ReasonCount(state, reason, words, len(same), example.short_id, tail)


def _first_failure(session: Session, row: RunRow) -> tuple[RunFolder | None, FirstFailure | None]:
    """The folder of the run, None when the store does not answer, and which rank failed first."""
    if row.state not in _ENDED_BADLY:
        return None, None
    try:
        folder = session.run_folder(row)
        return folder, find_first_failure(folder, row) if row.state == State.FAILED else None
    except StoreError:
        return None, None


def _against_waiting(waiting: Waiting | None, child: RunRow | None) -> tuple[str, ...]:
    """What ends a deadlock with other runs, then what helps by the word of the cluster."""
    if child is not None:
        return (f"gofer abort {child.short_id}",)
    if waiting is None:
        return ()
    return (*(f"gofer abort {short_id(run)}" for run in waiting.parents), *waiting.next)


def _not_started(session: Session, row: RunRow, folder: RunFolder) -> Waiting | None:
    """Why no node has begun a run that the cluster has given nodes to; None for any other run."""
    if row.state != State.STARTING or folder.attempts:
        return None
    return not_starting_for(session, row)


def next_steps(
    row: RunRow, failure: FirstFailure | None, cause: Cause | None = None, *, has_shell: bool
) -> tuple[str, ...]:
    """Complete command lines that work as they are, the most likely first; none for a run that succeeded."""
    name = row.short_id
    if row.kind == "group":
        return _of_group(row)
    if row.state == State.RUNNING:
        return (f"gofer logs -f {name}", *((f"gofer ssh {name}",) if has_shell else ()))
    if not row.is_final:
        return (f"gofer target show {quote_command([row.target])}", f"gofer abort {name}")
    if row.state == State.SUCCEEDED:
        return ()
    if cause is not None:
        return (*cause.next, *_logs_to_read(row, failure))
    return (*_logs_to_read(row, failure), again(row))


def _of_group(row: RunRow) -> tuple[str, ...]:
    name = row.short_id
    if any(row.counts.get(state) for state in _BADLY):
        again = (f"gofer resubmit --failed {name}",) if row.is_final else ()
        return (f"gofer list runs --group {name} --filter state=failed,lost,cancelled", *again)
    return () if row.is_final else (f"gofer list runs --group {name}",)


def _logs_to_read(row: RunRow, failure: FirstFailure | None) -> tuple[str, ...]:
    if failure is not None:
        rank = f" --rank {failure.rank}" if failure.rank else ""
        return (f"gofer logs {row.short_id}{rank}",)
    return (f"gofer logs {row.short_id}",) if row.reason == Reason.SETUP else ()
