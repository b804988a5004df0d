"""Paths that a caller on another machine writes."""

from __future__ import annotations

import os


def full_path(path: str) -> str:
    """Expand `~` and `{host}`, the name of this machine. Machines may share a home, but not a queue."""
    return os.path.expanduser(path).replace("{host}", os.uname().nodename)
