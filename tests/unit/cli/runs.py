"""Runs for the tests of rendering: rows of the ledger with everything set that a test does not set itself."""

from __future__ import annotations

from typing import Any

from gofer.tracking.ledger import RunRow

NOW = 1_790_000_000.0

_PLAIN: dict[str, Any] = {
    "id": "r260921-140640-k9qd4x",
    "kind": "run",
    "group_id": None,
    "row_index": None,
    "name": "train",
    "target": "local",
    "backend": "local",
    "store": "file:///store",
    "state": "succeeded",
    "reason": None,
    "detail": None,
    "exit_code": 0,
    "command": ["python", "train.py", "--data", "voc 20"],
    "args": {},
    "gpus": 8,
    "nodes": 2,
    "procs": 4,
    "priority": 0,
    "submitted_at": NOW - 3600,
    "started_at": NOW - 3500,
    "ended_at": NOW - 3300,
    "elapsed_s": 200.25,
    "attempts": [{"number": 1, "state": "succeeded"}],
    "snapshot": "0123456789abcdef0123456789abcdef",
    "tags": {},
    "counts": {},
    "size": 1,
    "record": b"",
    "submitter": "",
    "observed_at": NOW,
}


def a_run(**changes: Any) -> RunRow:
    """A run that succeeded on two nodes, changed as told."""
    return RunRow(**{**_PLAIN, **changes})


def a_group(counts: dict[str, int], **changes: Any) -> RunRow:
    """A group whose rows stand as `counts` says."""
    return a_run(
        **{"kind": "group", "counts": counts, "size": sum(counts.values()), "exit_code": None, **changes}
    )
