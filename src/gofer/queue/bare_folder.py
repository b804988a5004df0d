"""Removes the folder of an array's row that wrote nothing, so that 100,000 rows do not leave 800,000 files.

All that such a folder says is in the row's line of `ends.jsonl`, which the folder of the group has.
"""

from __future__ import annotations

import os
from typing import Iterator

from gofer.core import run_layout

# What the agent writes about a run, whatever the command does.
_RECORDS = (run_layout.EVENTS, run_layout.EXIT, run_layout.HEARTBEAT)


def remove(store: str, run_id: str) -> bool:
    """Remove the row's folder if its command wrote no file and no byte of log; whether it was removed.

    The row must have succeeded in its first attempt, and its end must be in the queue and in `ends.jsonl`. A
    folder that cannot be read or removed stays.
    """
    folder = os.path.join(store, run_layout.run_key(run_id))
    try:
        tree = list(os.walk(folder, topdown=False, onerror=_raise))
        if not all(_says_nothing(path) for path in _files_of(tree)):
            return False
        for path in _files_of(tree):
            os.unlink(path)
        for path, _, _ in tree:
            os.rmdir(path)
    except OSError:
        return False
    return bool(tree)


def _files_of(tree: list[tuple[str, list[str], list[str]]]) -> Iterator[str]:
    return (os.path.join(path, name) for path, _, names in tree for name in names)


def _says_nothing(path: str) -> bool:
    key = path.replace(os.sep, "/")
    is_record = os.path.basename(path) in _RECORDS and "/attempts/1/node-" in key
    is_log = run_layout.parse_log_key(key) is not None
    return is_record or (is_log and os.lstat(path).st_size == 0)


def _raise(error: OSError) -> None:
    raise error
