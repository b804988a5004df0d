"""The results of functions: what they returned, or what they raised, with the traceback from the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gofer.core.parallel import parallel_map
from gofer.core.states import State
from gofer.errors import RunFailed
from gofer.ops.functions.results import Raised, ResultReader
from gofer.ops.runs.why import why
from gofer.ops.session import Session
from gofer.tracking.rows import RunRow

_AT_ONCE = 8
# How a line of gofer in a log begins, such as why a function could not be called there.
_OWN_LINE = "gofer: "


class RemoteTraceback(Exception):
    """The traceback of an exception on the node, as text: the cause of the exception here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def result_of(session: Session, row: RunRow) -> Any:
    """What the function of an ended run returned on rank 0; raises what it raised, else RunFailed.

    UsageError for the run of a command, ResultError for a result that is missing or cannot be trusted.
    """
    reader = ResultReader(session, row)
    if row.state != State.SUCCEEDED.value:
        raise _error(session, reader, row)
    return reader.value(row)


def results_of_ranks(session: Session, row: RunRow, *, return_exceptions: bool) -> list[Any]:
    """What the function of an ended run returned on each rank; one exception for all when it failed."""
    reader = ResultReader(session, row)
    ranks = range(row.nodes * row.procs)
    if row.state == State.SUCCEEDED.value:
        return parallel_map(lambda rank: reader.value(row, rank=rank), ranks, at_once=_AT_ONCE)
    error = _error(session, reader, row)
    if return_exceptions:
        return [error for _ in ranks]
    raise error


def results_of_rows(
    session: Session, group: RunRow, rows: Sequence[RunRow], *, return_exceptions: bool
) -> list[Any]:
    """The results of the ended rows of a group, in order. With `return_exceptions`, an exception stands in
    the place of a result; else that of the first row that has one is raised.
    """
    reader = ResultReader(session, group)
    bad = [row for row in rows if row.state != State.SUCCEEDED.value]
    if bad and not return_exceptions:
        raise _error(session, reader, bad[0])
    good = [row for row in rows if row.state == State.SUCCEEDED.value]
    values = parallel_map(reader.value, good, at_once=_AT_ONCE)
    found = {row.id: value for row, value in zip(good, values, strict=True)}
    found |= {row.id: _error(session, reader, row) for row in bad}
    return [found[row.id] for row in rows]


def _error(session: Session, reader: ResultReader, row: RunRow) -> Exception:
    """The exception for a run that did not succeed: that of its function, else RunFailed."""
    raised = reader.error(row)
    if raised is None:
        return failure_of(session, row)
    error = raised.error or _unloadable(row, raised)
    error.__cause__ = RemoteTraceback(raised.traceback)
    error.add_note(f"raised in the run {row.short_id} ({row.name}); its log: `gofer logs {row.short_id}`")
    return error


def _unloadable(row: RunRow, raised: Raised) -> RunFailed:
    """The error for an exception that could not be pickled, or whose class is not here."""
    words = raised.message if raised.is_sentence else f"{raised.type}: {raised.message}"
    return RunFailed(
        f"the run {row.short_id} ({row.name}) failed: {words}",
        run_id=row.id,
        state=row.state,
        traceback=raised.traceback,
    )


def check_succeeded(session: Session, row: RunRow) -> None:
    """RunFailed unless the run or group has succeeded."""
    if row.state != State.SUCCEEDED.value:
        raise failure_of(session, row)


def failure_of(session: Session, row: RunRow) -> RunFailed:
    """The error for a run that did not succeed, with the reason and the next step in words."""
    found = why(session, row)
    words = found.words or "; ".join(f"{one.runs} {one.state}" for one in found.reasons)
    hint = f"`{found.next[0]}`" if found.next else None
    message = f"the run {row.short_id} ({row.name}) {_ENDS.get(row.state, row.state)}"
    last = found.failure.tail[-1] if found.failure is not None and found.failure.tail else ""
    if last.startswith(_OWN_LINE) and last.removeprefix(_OWN_LINE) not in words:
        words = f"{words}: {last.removeprefix(_OWN_LINE)}"
    return RunFailed(f"{message}: {words}" if words else message, run_id=row.id, state=row.state, hint=hint)


_ENDS = {"cancelled": "was cancelled", "lost": "was lost"}
