"""Runs as the lines of a table."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gofer.cli.output.columns import column, text
from gofer.cli.output.table import render

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow


def run_table(
    rows: Iterable[RunRow], names: tuple[str, ...], *, spare: bool, fit: int | None, colour: bool
) -> str:
    """The runs as they are now, by column names; `fit` is the width of the terminal, if there is one.

    With `spare`, a terminal gets no column that is empty in every row, and a narrow one drops some.
    """
    now = time.time()
    lines = [[text(name, row, now) for name in names] for row in rows]
    filled = [any(line[at] for line in lines) for at in range(len(names))]
    at_shown = [at for at in range(len(names)) if filled[at] or not (spare and fit and lines)]
    cells = [[line[at] for at in at_shown] for line in lines]
    columns = [column(names[at], chosen=not spare) for at in at_shown]
    return render(columns, cells, fit=fit, colour=colour)
