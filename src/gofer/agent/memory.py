"""Was it the lack of memory? Evidence from the kernel first, from the log's last lines second."""

from __future__ import annotations

import re
import signal
from typing import Iterable

_WORDS = re.compile(
    r"(^|\W)MemoryError\b|CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc"
    r"|Cannot allocate memory|RESOURCE_EXHAUSTED: Out of memory"
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
