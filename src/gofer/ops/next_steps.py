"""What a person types next, by where a run stands. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.agent.states import Reason, State
from gofer.text import quote_command

if TYPE_CHECKING:
    from gofer.ops.failures import FirstFailure
    from gofer.tracking.ledger import RunRow

_BADLY = (State.FAILED.value, State.LOST.value, State.CANCELLED.value)


def next_steps(row: RunRow, failure: FirstFailure | None) -> tuple[str, ...]:
    """Whole command lines, the likeliest first; none for a run that succeeded."""
    name = row.short_id
    if row.kind == "group":
        return _of_group(row)
    if row.state == State.RUNNING:
        return (f"gofer logs -f {name}", f"gofer ssh {name}")
    if not row.is_final:
        return (f"gofer target show {quote_command([row.target])}", f"gofer abort {name}")
    if row.state == State.SUCCEEDED:
        return ()
    return (*_look(row, failure), *_again(row))


def _of_group(row: RunRow) -> tuple[str, ...]:
    name = row.short_id
    if any(row.counts.get(state) for state in _BADLY):
        again = (f"gofer resubmit --failed {name}",) if row.is_final else ()
        return (f"gofer list runs --group {name} --filter state=failed,lost,cancelled", *again)
    return () if row.is_final else (f"gofer list runs --group {name}",)


def _look(row: RunRow, failure: FirstFailure | None) -> tuple[str, ...]:
    if failure is not None:
        rank = f" --rank {failure.rank}" if failure.rank else ""
        return (f"gofer logs {row.short_id}{rank}",)
    return (f"gofer logs {row.short_id}",) if row.reason == Reason.SETUP else ()


def _again(row: RunRow) -> tuple[str, ...]:
    """The command itself where something about it must change, else only its repetition."""
    if row.group_id is not None:
        return (f"gofer resubmit --failed {row.group_id.split('-', 2)[-1]}",)
    where = quote_command(["-t", row.target])
    gpus = f" -n {row.gpus}" if row.gpus else ""
    if row.reason == Reason.TIME_LIMIT:
        return (f"gofer submit {where}{gpus} --time-limit LONGER {quote_command(row.command)}",)
    if row.reason == Reason.OUT_OF_MEMORY:
        return (f"gofer submit {where}{gpus} {quote_command(row.command)}  # with less to hold at once",)
    return (f"gofer resubmit {row.short_id}",)
