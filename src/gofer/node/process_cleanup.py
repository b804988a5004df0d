"""The end of whatever a command left behind: daemons, background jobs, children that ignore signals."""

from __future__ import annotations

import os
from typing import Collection, Optional

from gofer.core import processes
from gofer.node import cgroups


def end(cgroup: Optional[str], *, spared: Collection[int]) -> bool:
    """Kill and reap all below this process, and all in its group, but for those spared.

    Whether all of them are gone: a process of another user, or one that hangs in the kernel, stays.
    """
    left: Collection[int] = ()
    if cgroup is not None:
        cgroups.kill_others(cgroup, spared=spared)
        left = set(cgroups.members(cgroup)) - {os.getpid(), *spared}
    if has_children():
        me = os.getpid()
        below = processes.kill_until_gone(lambda table: processes.descendants(me, table, spared=spared))
        left = [*left, *below]
        has_children()
    return not left


def has_children() -> bool:
    """Reaps those that have ended; whether any is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
