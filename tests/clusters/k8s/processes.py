"""Programs that run in a cell, by name."""

from __future__ import annotations

from clusters.cells import Cell
from clusters.errors import ClusterError
from clusters.waiting import until

# The kernel keeps this much of a name.
_NAME_LENGTH = 15


def runs(cell: Cell, name: str) -> bool:
    """Whether such a program runs in the cell."""
    try:
        cell.call("pgrep", "--exact", name[:_NAME_LENGTH])
    except ClusterError:
        return False
    return True


def send(cell: Cell, name: str, word: str) -> None:
    """Send the signal, such as KILL, to each such program; ClusterError when there is none."""
    cell.call("pkill", f"--signal={word}", "--exact", name[:_NAME_LENGTH])


def kill(cell: Cell, name: str) -> None:
    """End such programs at once and wait until they are gone; idempotent."""
    if runs(cell, name):
        send(cell, name, "KILL")
        until(lambda: not runs(cell, name), f"the end of {name}", list)
