"""What is raised when a cluster cannot be had, with the end of the log that says why."""

from __future__ import annotations

from pathlib import Path

_LINES = 15


class ClusterError(RuntimeError):
    """A cluster could not be started, or one of its commands failed."""


def with_logs(what: str, *logs: Path) -> ClusterError:
    """`what`, then the last lines of each log that is there."""
    parts = [what]
    for log in logs:
        if log.exists():
            lines = log.read_text(errors="replace").splitlines()[-_LINES:]
            parts += [f"--- end of {log}", *(lines or ["(empty)"])]
    return ClusterError("\n".join(parts))
