"""The end of whatever a command left behind: daemons, background jobs, children that ignore signals."""

from __future__ import annotations

import os
from typing import Collection, Optional

from gofer.agent import cgroups, processes


def end(cgroup: Optional[str], *, spared: Collection[int]) -> None:
    """Kill and reap all below this process, and all in its group, but for those spared."""
    if cgroup is not None:
        cgroups.kill_others(cgroup, spared=spared)
    if _has_children():
        me = os.getpid()
        processes.kill_until_gone(lambda table: processes.descendants(me, table, spared=spared))
        _has_children()


def _has_children() -> bool:
    """Reaps those that have ended; whether any is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
