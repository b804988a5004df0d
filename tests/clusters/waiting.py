"""Calls a function of a cluster until its answer is true, within a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from clusters.errors import with_logs

TIMEOUT_S = 120.0
_INTERVAL_S = 0.1


def until(
    probe: Callable[[], object], what: str, logs: Callable[[], list[Path]], *, timeout_s: float = TIMEOUT_S
) -> None:
    """Ask until the answer is true; ClusterError with the ends of the logs when time is up."""
    deadline = time.monotonic() + timeout_s
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise with_logs(f"waited {timeout_s:g} s for {what}; last answer {answer!r}", *logs())
        time.sleep(_INTERVAL_S)
