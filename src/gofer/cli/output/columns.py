"""The columns of `gofer list runs`: heading, value for files and JSON, and text for a table.

This module imports little, because commands that must start instantly use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.cli.output.table import Column
from gofer.errors import UnknownName
from gofer.text import did_you_mean, format_duration, format_local_time, format_time, quote_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gofer.tracking.ledger import RunRow

    Value = str | int | float | None

SHOWN = ("short", "name", "state", "reason", "target", "gpus", "age", "elapsed", "command")
_EXPORTED = """
    id name state reason detail exit_code target gpus nodes procs priority submitted started ended elapsed
    attempts group row snapshot command
"""
EXPORTED = tuple(_EXPORTED.split())

_READERS: dict[str, Callable[[RunRow], Value]] = {
    "id": lambda row: row.id,
    "short": lambda row: row.short_id,
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    "reason": lambda row: row.reason,
    "detail": lambda row: row.detail,
    "exit_code": lambda row: row.exit_code,
    "target": lambda row: row.target,
    "backend": lambda row: row.backend,
    "gpus": lambda row: row.gpus,
    "nodes": lambda row: row.nodes,
    "procs": lambda row: row.procs,
    "priority": lambda row: row.priority,
    "submitted": lambda row: row.submitted_at,
    "started": lambda row: row.started_at,
    "ended": lambda row: row.ended_at,
    "elapsed": lambda row: row.elapsed_s,
    "attempts": lambda row: len(row.attempts),
    "group": lambda row: row.group_id,
    "row": lambda row: row.row_index,
    "rows": lambda row: row.size if row.kind == "group" else None,
    "snapshot": lambda row: row.snapshot,
    "command": lambda row: quote_command(row.command),
    "tags": lambda row: ",".join(f"{key}={value}" if value else key for key, value in row.tags.items()),
}
# The names of all columns, without `tag.NAME` and `arg.NAME`.
COLUMNS = (*_READERS, "age")
_TIMES = ("submitted", "started", "ended")
_NUMBERS = ("exit_code", "gpus", "nodes", "procs", "priority", "attempts", "row", "rows", "age", "elapsed")
_TITLES = {"short": "ID", "exit_code": "EXIT"}
_FLEXIBLE = ("name", "reason", "detail", "command", "tags")
# What a narrow terminal does without, unless the person chose the columns.
_DROPPED = ("gpus", "target", "reason", "elapsed", "age")
# The detail of a run that waits says in a few words what it waits for.
_WAITING = ("queued", "paused")
_OK = {"succeeded": "ok"}


def parse_columns(text: str) -> tuple[str, ...]:
    """The column names in `a,b,tag.lr`; UnknownName, with a similar name, for an unknown column."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in COLUMNS and not name.startswith(("tag.", "arg.")):
            near = did_you_mean(name, COLUMNS)
            every = f"the columns are {', '.join(COLUMNS)}, tag.NAME and arg.NAME"
            hint = f"{near} {every[0].upper()}{every[1:]}" if near else every
            raise UnknownName(f"`{name}` is not a column of runs", hint=hint)
    if not names:
        raise UnknownName(f"`{text}` names no column", hint="write for example `--columns id,state,tag.lr`")
    return names


def column(name: str, *, chosen: bool) -> Column:
    """The heading and layout of a column in a table. A column that a person has `chosen` is never dropped."""
    return Column(
        _TITLES.get(name, name if "." in name else name.upper()),
        right=name in _NUMBERS,
        flexible=name in _FLEXIBLE,
        coloured=name == "state",
        drop=0 if chosen or name not in _DROPPED else _DROPPED.index(name) + 1,
    )


def value(name: str, row: RunRow, now: float) -> Value:
    """The exact value, for files and scripts: times in RFC 3339, durations in seconds, None for nothing."""
    if name in _READERS:
        found = _READERS[name](row)
        return format_time(found) if name in _TIMES and isinstance(found, int | float) else found
    if name == "age":
        return now - row.submitted_at
    kind, _, key = name.partition(".")
    return (row.tags if kind == "tag" else row.args).get(key)


def text(name: str, row: RunRow, now: float) -> str:
    """The value as a person reads it in a table; empty for nothing."""
    if name == "age":
        return format_duration(now - row.submitted_at)
    if name == "elapsed":
        return _elapsed(row, now)
    if name == "reason" and row.kind == "group":
        return summary(row.counts)
    if name == "reason" and row.state in _WAITING:
        return row.detail or ""
    found = _READERS[name](row) if name in _READERS else value(name, row, now)
    if name in _TIMES and isinstance(found, int | float):
        return format_local_time(found)
    if found == "" and name.startswith("tag."):
        return "yes"  # the tag has no value, so show that it is set
    return "" if found is None else str(found)


def summary(counts: dict[str, int]) -> str:
    """The rows of a group by state: `990 ok, 3 failed, 7 queued`."""
    order = ("succeeded", "failed", "lost", "cancelled", "running", "starting", "queued", "pending")
    states: Sequence[str] = [*order, *(state for state in counts if state not in order)]
    return ", ".join(f"{counts[state]} {_OK.get(state, state)}" for state in states if counts.get(state))


def _elapsed(row: RunRow, now: float) -> str:
    if row.elapsed_s is not None:
        return format_duration(row.elapsed_s)
    if row.started_at is not None and not row.is_final:
        return format_duration(now - row.started_at)
    return (
        ""
        if row.started_at is None or row.ended_at is None
        else format_duration(row.ended_at - row.started_at)
    )
