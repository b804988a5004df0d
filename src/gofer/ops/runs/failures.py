"""Explain how a run ended: the reason in a sentence, the rank that failed first, and the exit status of a
command that waits for runs.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.states import Reason, State
from gofer.ops.runs.run_folder import first_failure
from gofer.ops.submission import gpu_oversight
from gofer.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.model.run import RunRecord
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


# A shell reports a child killed by signal n as 128 + n; Linux has 64 signals.
_SHELL_SIGNALS = range(129, 193)

# Used when the node and the cluster give no more exact reason.
_PLAIN = {
    Reason.USER: "stopped by its owner",
    Reason.OUT_OF_MEMORY: "out of memory",
    Reason.NODE_FAILURE: "the node failed",
    Reason.SETUP: "set-up failed",
    Reason.STAGING: "the code could not be staged",
}
_BEFORE_DETAIL = {
    Reason.PREEMPTED: "preempted",
    Reason.REJECTED: "rejected",
    Reason.CREDENTIAL: "a credential is missing or expired",
}
# How a detail begins when the time limit was reached before the command. Older versions wrote the last two.
_LATE_BEFORE = (
    *("set-up reached the time limit", "the time limit was reached "),
    *("set-up ran into the time limit", "the time limit came "),
)
# A process can exit with no higher status.
_HIGHEST = 255


class FirstFailure(NamedTuple):
    """The first rank to fail in the last attempt, over all its nodes, and the end of its log."""

    attempt: int
    node: int
    rank: int
    exit_code: int | None
    signal: int | None
    at: float | None
    tail: tuple[str, ...]


def find_first_failure(folder: RunFolder, row: RunRow) -> FirstFailure | None:
    """The first failure in the exit records of the last attempt; None when no record has one."""
    if row.kind == "group" or row.state == State.SUCCEEDED:
        return None
    attempt = folder.last_attempt(row)
    found = first_failure(folder.exit_records(attempt)) if attempt else None
    if found is None:
        return None
    node, one = found
    return FirstFailure(attempt, node, one.rank, one.exit_code, one.signal, one.at, one.tail)


def signal_of(failure: FirstFailure) -> int | None:
    """The signal that ended the rank, or a child of it whose end a shell passed on."""
    code = failure.exit_code
    if failure.signal is None and code is not None and code in _SHELL_SIGNALS:
        return code - 128
    return failure.signal


def explain(row: RunRow, record: RunRecord | None = None, failure: FirstFailure | None = None) -> str | None:
    """The reason as a sentence; None when there is nothing to explain.

    With `record`, it includes the time limit and whether the run saw no GPU; with `failure`, the rank that
    failed.
    """
    words = _explain(row, record, failure)
    if failure is not None and gpu_oversight.explains(record, failure.tail):
        return gpu_oversight.with_cure(words or row.state)
    return words


def _explain(row: RunRow, record: RunRecord | None, failure: FirstFailure | None) -> str | None:
    if row.reason == Reason.TIME_LIMIT and not (row.detail or "").startswith(_LATE_BEFORE):
        return _explain_limit(record)
    if row.reason in (Reason.EXIT_CODE, Reason.SIGNAL):
        words = _explain_end(row, failure)
        # The detail may add files that did not reach their store.
        more = (row.detail or "").partition("; ")[2]
        return "; ".join(one for one in (words, more) if one) if words else row.detail
    if row.reason in list(_BEFORE_DETAIL):
        words = _BEFORE_DETAIL[Reason(row.reason)]
        return f"{words}: {row.detail}" if row.detail else words
    if row.detail is None and row.reason in list(_PLAIN):
        return _PLAIN[Reason(row.reason)]
    return row.detail or row.reason


def name_signal(number: int) -> str:
    """`signal 9 (SIGKILL)`, or only the number if the signal has no name."""
    import signal

    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _explain_limit(record: RunRecord | None) -> str:
    if record is None or record.job.time_limit_s is None:
        return "stopped at its time limit"
    limit = re.sub(r"(?<=[dhm])00[hms]$|\.0(?=s$)", "", format_duration(record.job.time_limit_s))
    return f"stopped at its time limit of {limit}"


def _explain_end(row: RunRow, failure: FirstFailure | None) -> str | None:
    who = f"rank {failure.rank} " if failure and row.nodes * row.procs > 1 else ""
    if failure and failure.signal is not None:
        return f"{who}{'was ' if who else ''}killed by {name_signal(failure.signal)}"
    code = failure.exit_code if failure else row.exit_code
    if code is None:
        return None
    if code in _SHELL_SIGNALS:
        if row.reason == Reason.SIGNAL:
            return f"{who}{'was ' if who else ''}killed by {name_signal(code - 128)}"
        return f"{who}exited with {code} (128 + {name_signal(code - 128)})"
    return f"{who}exited with {code}"


def first_failed_row(session: Session, group: RunRow) -> RunRow | None:
    """The row of a group that failed first; None when none failed."""
    failed = session.ledger.rows_of(group.id, {State.FAILED, State.LOST}) if group.kind == "group" else []
    return min(failed, key=lambda row: row.ended_at or math.inf, default=None)


def exit_status(session: Session, rows: Sequence[RunRow]) -> int:
    """The highest exit status among the runs; a group counts as its rows."""
    return max(
        (_of_group(session, row) if row.kind == "group" else status_of(row) for row in rows), default=0
    )


def status_of(row: RunRow) -> int:
    """0 when it succeeded, else its command's own exit code, 128 + the signal, or 1 when there is none."""
    if row.state == "succeeded":
        return 0
    code = row.exit_code or 1
    return min(code if code > 0 else 128 - code, _HIGHEST)


def _of_group(session: Session, group: RunRow) -> int:
    """The highest status of the rows that did not succeed; 1 when the ledger has no such row."""
    if group.state == "succeeded":
        return 0
    bad = [state for state in group.counts if state != "succeeded"]
    return max((status_of(row) for row in session.ledger.rows_of(group.id, bad)), default=1)
