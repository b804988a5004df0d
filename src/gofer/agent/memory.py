"""How much memory a run has, and whether the lack of it was its end: evidence from the kernel first, from the
log's last lines second.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Iterable

from gofer.agent import processes

_WORDS = re.compile(
    r"MemoryError\b|\b(CUDA|HIP|MPS|XPU)\b.{0,40}out of memory|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc"
    r"|Cannot allocate memory|RESOURCE_EXHAUSTED: Out of memory|^fatal error: .*out of memory"
)
_KILLED = 128 + signal.SIGKILL


def kernel_kills() -> int:
    """How many processes the kernel has ended for lack of memory since boot."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def explains(status: int, *, kills_before: int, tail: Iterable[str]) -> bool:
    """Whether a process that ended with `status` (shell form) died for lack of memory.

    The kernel's count must have risen since `kills_before`, which the caller keeps no older than a few
    seconds: the kernel may have ended a child of the command, whose pid nobody knows any more.
    """
    if status == _KILLED:
        return kernel_kills() > kills_before
    return status != 0 and any(_WORDS.search(line) for line in tail)


def resident_mib(pids: list[int]) -> int:
    """What these processes and all below them hold, shared pages counted more than once."""
    table = processes.all_processes()
    wanted = set(pids)
    for pid in pids:
        wanted |= processes.descendants(pid, table)
    pages = 0
    for pid in wanted:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages += int(file.read().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
