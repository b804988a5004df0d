"""Copies files between this machine and stores, and from store to store.

`plan` compares two ends, and `run` carries out the plan. This package neither prints nor asks questions.
"""

from gofer.transfer.endpoints import End, LocalEnd, StoreEnd
from gofer.transfer.executor import run
from gofer.transfer.planner import TransferOptions, TransferPlan, plan
from gofer.transfer.progress import Numbers, TransferProgress
from gofer.transfer.result import FileNote, Notes, TransferResult

__all__ = [
    "End",
    "FileNote",
    "LocalEnd",
    "Notes",
    "Numbers",
    "StoreEnd",
    "TransferOptions",
    "TransferPlan",
    "TransferProgress",
    "TransferResult",
    "plan",
    "run",
]
