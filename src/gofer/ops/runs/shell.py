"""Open a shell where a run runs: the command line for it, or why that is not possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.backends.base import RunRef
from gofer.core.states import State
from gofer.errors import CheckFailed, GoferError, UsageError
from gofer.ops.runs.observe import PatientRefresh
from gofer.ops.runs.run_records import RunRecords
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.ops.submission.send import is_here
from gofer.text import count_runs

if TYPE_CHECKING:
    from gofer.model.run import RunRecord
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 2.0
_PASSIVE = (State.CANCELLED.value, State.LOST.value)
_INSIDE = (State.RUNNING.value, State.STARTING.value)


def has_shell(session: Session, row: RunRow, record: RunRecord | None) -> bool:
    """Whether a shell can be opened beside the run now, as far as gofer knows without asking its cluster.
    True for a job that gofer did not start.
    """
    if row.state != State.RUNNING or row.kind == "group":
        return False
    if record is None or is_adopted(row) or record.job.shell:
        return True
    try:
        return not session.backend_of(row).capabilities.shell_on_request
    except GoferError:
        return True


def shell_words(
    session: Session, row: RunRow, command: Sequence[str], *, terminal: bool, node: int | None = None
) -> list[str]:
    """The command line that opens a shell in the run, or runs `command` in it. Refresh the run first.

    CheckFailed when the run is not running or this machine cannot reach it; UsageError for a group and for an
    unknown node.
    """
    name = row.short_id
    if row.kind == "group":
        raise UsageError(
            f"`{name}` is a group of {count_runs(row.size)}",
            hint=f"name one that runs: `gofer list runs --group {name} --filter state=running`",
        )
    if node is not None and node >= row.nodes:
        has = "one node: 0" if row.nodes == 1 else f"{row.nodes} nodes: 0 to {row.nodes - 1}"
        raise UsageError(f"`{name}` has no node {node}", hint=f"it has {has}")
    if row.is_final:
        raise _not_running(row)
    if registry.runs_here(row.backend) and not is_here(session, row.submitter):
        raise CheckFailed(
            f"{name} runs on another machine: {_where(session, row)}",
            hint=f"log in to that machine and run `gofer ssh {name}`",
        )
    backend = session.backend_of(row)
    try:
        run = RunRef(row.id, row.group_id, row.row_index)
        words = backend.shell(run, command, terminal=terminal, node=node)
    except CheckFailed:
        # The ledger may be some seconds old; only the cluster knows whether the run still runs.
        if row.state in _INSIDE:
            raise
        raise _not_running(row) from None
    if words is None:
        raise CheckFailed(
            f"{name} runs on `{row.target}`, and targets of kind `{row.backend}` have no shells",
            hint=f"`gofer logs -f {name}` follows its log",
        )
    return list(words)


def wait_inside(
    session: Session, run_id: str, *, on_answer: Callable[[Sequence[RunRow]], None] | None = None
) -> RunRow:
    """Block until the run can be entered or has ended. `on_answer` gets the run after every question.

    Continues while the cluster does not answer.
    """
    pause_s = _FIRST_PAUSE_S
    patient = PatientRefresh(session)
    while True:
        row = session.ledger.get(run_id)
        assert row is not None  # the ledger never removes an open run
        patient.refresh([row])
        row = session.ledger.get(run_id) or row
        if row.is_final or row.state == State.RUNNING:
            return row
        if on_answer is not None:
            on_answer([row])
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, _LONGEST_PAUSE_S)


def _not_running(row: RunRow) -> CheckFailed:
    name = row.short_id
    if not row.is_final:
        return CheckFailed(
            f"{name} does not run yet: it is {row.state}", hint=f"`gofer why {name}` says what it waits for"
        )
    became = f"was {row.state}" if row.state in _PASSIVE else row.state
    return CheckFailed(
        f"{name} is no longer running: it {became}",
        hint=f"`gofer extract {name} DIR` fetches its files, `gofer resubmit {name}` runs it again",
    )


def _where(session: Session, row: RunRow) -> str:
    record = RunRecords(session).of(row)
    return record.submitted_by if record else "which one is not recorded"
