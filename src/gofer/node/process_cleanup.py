"""End whatever a command left running: daemons, background jobs, children that ignore signals."""

from __future__ import annotations

import os
from typing import Collection, Optional

from gofer.core import processes
from gofer.node import cgroups


def end(cgroup: Optional[str], *, spared: Collection[int]) -> bool:
    """Kill and reap all descendants of this process and all processes in its cgroup, except `spared`. Blocks.

    False when some are left: a process of another user, or a process that hangs in the kernel.
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
    """Reap children that have ended; whether any child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
