"""Suggest the next commands for a person, by the state of a run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.core.states import Reason, State
from gofer.ops.submission import gpu_oversight
from gofer.ops.submission.submit_line import submit_line
from gofer.text import quote_command

if TYPE_CHECKING:
    from gofer.model.run import RunRecord
    from gofer.ops.runs.failures import FirstFailure
    from gofer.tracking.ledger import RunRow

_BADLY = (State.FAILED.value, State.LOST.value, State.CANCELLED.value)


def next_steps(row: RunRow, failure: FirstFailure | None, record: RunRecord | None = None) -> tuple[str, ...]:
    """Complete command lines, the most likely first; none for a run that succeeded.

    With `record`, a line that repeats the run has all its options.
    """
    name = row.short_id
    if row.kind == "group":
        return _of_group(row)
    if row.state == State.RUNNING:
        return (f"gofer logs -f {name}", f"gofer ssh {name}")
    if not row.is_final:
        return (f"gofer target show {quote_command([row.target])}", f"gofer abort {name}")
    if row.state == State.SUCCEEDED:
        return ()
    if record is not None and failure is not None and gpu_oversight.explains(record, failure.tail):
        return (submit_line(record, gpus=1), *_logs_to_read(row, failure))
    return (*_logs_to_read(row, failure), *_again(row, record))


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


def _again(row: RunRow, record: RunRecord | None) -> tuple[str, ...]:
    """The full command line if something in it must change, else only `gofer resubmit`."""
    if row.group_id is not None:
        return (f"gofer resubmit --failed {row.group_id.split('-', 2)[-1]}",)
    if record is None or row.reason not in (Reason.TIME_LIMIT, Reason.OUT_OF_MEMORY):
        return (f"gofer resubmit {row.short_id}",)
    if row.reason == Reason.TIME_LIMIT:
        return (submit_line(record, time_limit="LONGER"),)
    return (f"{submit_line(record)}  # with less data in memory at once",)
