"""Moves files between this machine and the stores, and from store to store.

`plan` compares two ends, `run` does what the plan says. Nothing here draws or asks.
"""

from gofer.transfer.ends import End, LocalEnd, StoreEnd
from gofer.transfer.notes import Note, Notes
from gofer.transfer.options import Options
from gofer.transfer.planning import Plan, plan
from gofer.transfer.progress import Numbers, Progress
from gofer.transfer.result import Result
from gofer.transfer.running import run

__all__ = [
    "End",
    "LocalEnd",
    "Note",
    "Notes",
    "Numbers",
    "Options",
    "Plan",
    "Progress",
    "Result",
    "StoreEnd",
    "plan",
    "run",
]
