"""How runs look at a Python prompt and in a notebook. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gofer.ops.runs.run_records import elapsed_s
from gofer.text import format_duration, quote_command
from gofer.tracking.rows import RunRow

MOST_LINES = 50
_MOST_COMMAND = 80
_HEADS = ("id", "name", "state", "elapsed", "target", "command")


def as_text(run_id: str, row: RunRow) -> str:
    """`Run('r261117-075534-33tz87', name='train', target='lab', state='running')`."""
    size = f", rows={row.size}" if row.kind == "group" else ""
    return f"Run({run_id!r}, name={row.name!r}, target={row.target!r}, state={row.state!r}{size})"


def as_table(rows: Sequence[RunRow], *, more: int = 0) -> str:
    """A table in HTML. All text of the runs is escaped."""
    heads = "".join(f"<th>{name}</th>" for name in _HEADS)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(row))}</tr>" for row in rows)
    tail = f"<p>{more:,} more</p>" if more > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{tail}"


def _cells(row: RunRow) -> tuple[str, ...]:
    state = f"{row.state} ({row.reason})" if row.reason else row.state
    if row.kind == "group":
        state += ": " + ", ".join(f"{count} {word}" for word, count in row.counts.items())
    command = quote_command(row.command)
    if len(command) > _MOST_COMMAND:
        command = f"{command[:_MOST_COMMAND]}…"
    return (row.short_id, row.name, state, format_duration(elapsed_s(row)), row.target, command)
