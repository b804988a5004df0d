"""Text tables: columns that line up, cut to the terminal's width, whole when piped."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gofer.cli.output.screen import cut, printable, width
from gofer.cli.output.theme import paint

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "
_NARROWEST = 8


class Column(NamedTuple):
    """A heading and the alignment of its cells. On a narrow terminal a `flexible` column is cut, and columns
    with a number in `drop` are left out, the lowest number first.
    """

    title: str
    right: bool = False
    flexible: bool = False
    coloured: bool = False
    drop: int = 0


def screen_width() -> int | None:
    """The columns to fit a table into; None when stdout is not a terminal."""
    import sys

    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    fit: int | None = None,
    colour: bool = False,
) -> str:
    """The table as lines, heading first, without blanks at the ends of lines; control characters escaped.

    With `fit`, flexible columns are cut, the last first, until lines fit or they are 8 wide. Where that is
    not enough, columns that may be dropped are left out.
    """
    if fit is not None:
        columns, rows = _without_dropped(columns, rows, fit)
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max([width(column.title), *(width(row[at]) for row in cells)]) for at, column in enumerate(columns)
    ]
    if fit is not None:
        _narrow(columns, widths, fit)
    lines = [_line(columns, [column.title for column in columns], widths, colour=False)]
    lines += [_line(columns, row, widths, colour=colour) for row in cells]
    return "\n".join(lines) + "\n"


def _without_dropped(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], fit: int
) -> tuple[Sequence[Column], Sequence[Sequence[str]]]:
    """The columns and the cells of the rows that fit when flexible columns are as narrow as they can be."""
    widest = [
        max([width(column.title), *(width(printable(row[at])) for row in rows)])
        for at, column in enumerate(columns)
    ]
    least = [
        min(wide, _NARROWEST) if column.flexible else wide
        for column, wide in zip(columns, widest, strict=True)
    ]
    kept = list(range(len(columns)))
    for at in sorted(kept, key=lambda at: columns[at].drop):
        if sum(least[one] for one in kept) + len(_GAP) * (len(kept) - 1) <= fit:
            break
        if columns[at].drop:
            kept.remove(at)
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _narrow(columns: Sequence[Column], widths: list[int], fit: int) -> None:
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - fit
    for at in reversed(range(len(columns))):
        if excess > 0 and columns[at].flexible:
            give = min(excess, max(widths[at] - _NARROWEST, 0))
            widths[at] -= give
            excess -= give


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], *, colour: bool) -> str:
    parts = []
    for column, text, wide in zip(columns, row, widths, strict=True):
        shown = cut(text, wide)
        padding = " " * (wide - width(shown))
        if colour and column.coloured:
            shown = paint(shown, text)
        parts.append(padding + shown if column.right else shown + padding)
    return _GAP.join(parts).rstrip()


def render_facts(facts: Sequence[tuple[str, str]], *, colour: bool = False) -> str:
    """Aligned `key  value` lines; further lines of a value are below its first. With `colour`, the state has
    its colour.
    """
    widest = max((width(printable(name)) for name, _ in facts), default=0)
    lines = []
    for name, value in facts:
        key = printable(name)
        first, *more = value.split("\n")
        shown = printable(first)
        shown = paint(shown, shown) if colour and name == "state" else shown
        lines.append(f"{key}{' ' * (widest - width(key))}{_GAP}{shown}".rstrip())
        lines += [f"{' ' * widest}{_GAP}{printable(line)}".rstrip() for line in more]
    return "".join(line + "\n" for line in lines)
