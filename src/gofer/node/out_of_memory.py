"""Decide whether a process died for lack of memory: by evidence from the kernel first, then by the end of its
log.

Evidence from the kernel, the narrowest first:

1. The count of the control group of the run alone: of the agent, of the Slurm job, of the container.
2. The kernel log, where it may be read: it names the processes that were killed.
3. The count of the whole machine. Another run can have raised it, so the processes of this run must also have
   held at least half of the memory that they could have.
"""

from __future__ import annotations

import os
import re
import signal
import time
from functools import lru_cache
from typing import List, Mapping, NamedTuple, Optional, Sequence

from gofer.core.sleep import pause
from gofer.node import memory
from gofer.node.cgroups import AGENT_PREFIX
from gofer.node.watch import ProcessEnd

_WORDS = re.compile(
    r"MemoryError\b|\b(CUDA|HIP|MPS|XPU)\b.{0,40}out of memory|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc"
    r"|Cannot allocate memory|RESOURCE_EXHAUSTED: Out of memory|^fatal error: .*out of memory"
)
_KILLED = 128 + signal.SIGKILL
_VICTIM = re.compile(
    rb"[Oo]ut of memory.*: Killed process (\d+) .*anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB"
)
_LOG = "/dev/kmsg"
_RECORD_BYTES = 8192
# The kernel counts a kill before it sends the signal, and logs the kill after it.
_LOG_DELAY_S = 0.5
_LOOK_S = 0.01
_CLOSE_TO_LIMIT = 0.5
# The kernel's figures of one process differ by this, because each CPU counts for itself at first.
_INEXACT_KIB = 2048
# The initial namespace of process ids. The kernel log has ids of this namespace.
_FIRST_NAMESPACE = "pid:[4026531836]"


class Victim(NamedTuple):
    """A process that the kernel killed for lack of memory, and the memory it used."""

    pid: int
    rss_kib: int


class Kills:
    """Watches what the kernel kills for lack of memory, from the last `mark` on. Main thread only. Use only
    the newest object of a process: all read the kernel log by one descriptor.

    `is_alone`: if the agent is in a container, no other run is in it.
    """

    def __init__(self, *, is_alone: bool = False) -> None:
        self._group = _own_group(is_alone and _is_in_container())
        self._log = None if _is_in_container() else _open_log(os.getpid())
        self.mark()

    def mark(self) -> None:
        """Forget all kills before now."""
        if self._log is not None:
            os.lseek(self._log, 0, os.SEEK_END)
        self._victims: List[Victim] = []
        self._in_group = _count(self._group)
        self._on_machine = machine_kills()

    def explain(self, first: ProcessEnd, ended: Sequence[ProcessEnd]) -> bool:
        """Whether the end of `first` by SIGKILL, or of a child of it, was a kill for lack of memory.

        `ended` are all processes of the run here, once they have ended. Blocks for at most half a second.
        """
        if self._group is not None and _count(self._group) > self._in_group:
            return True
        rise = machine_kills() - self._on_machine
        if rise <= 0:
            return False
        if self._log is not None:
            self._read(self._log, rise)
            return any(is_victim(first, one) for one in self._victims)
        return self._group is None and is_close_to_limit(ended, memory.limit_kib())

    def _read(self, log: int, rise: int) -> None:
        """Read the kernel log until it names as many victims as the count says, or for half a second."""
        deadline = time.monotonic() + _LOG_DELAY_S
        self._victims += read_victims(log)
        while len(self._victims) < rise and time.monotonic() < deadline:
            pause(_LOOK_S)
            self._victims += read_victims(log)


def explained_by(tail: Sequence[str]) -> bool:
    """Whether the last lines of a log have an error about lack of memory."""
    return any(_WORDS.search(line) for line in tail)


def ran_out(first: ProcessEnd, ended: Sequence[ProcessEnd], *, kills: Kills, tail: Sequence[str]) -> bool:
    """Whether a rank that failed died for lack of memory."""
    if first.status == _KILLED:
        return kills.explain(first, ended)
    return explained_by(tail)


def is_victim(first: ProcessEnd, victim: Victim) -> bool:
    """Whether the kernel killed this rank, or a child whose end the rank passed on as 137.

    The process id of such a child is no longer known. But the memory peak of the rank includes its children,
    so a victim that used more memory was not one of them.
    """
    if first.signal == signal.SIGKILL:
        return first.pid == victim.pid
    return first.peak_kib + _INEXACT_KIB >= victim.rss_kib


def is_close_to_limit(ended: Sequence[ProcessEnd], limit_kib: int) -> bool:
    return sum(one.peak_kib for one in ended) >= _CLOSE_TO_LIMIT * limit_kib


def machine_kills() -> int:
    """How many processes the kernel has killed for lack of memory since the machine started."""
    return memory.read_field("/proc/vmstat", "oom_kill") or 0


def read_victims(log: int) -> List[Victim]:
    """The victims in new records of the kernel log."""
    found: List[Victim] = []
    while True:
        try:
            record = os.read(log, _RECORD_BYTES)
        except BlockingIOError:
            return found
        except BrokenPipeError:  # older records were overwritten; the next read gives the oldest that is left
            continue
        match = _VICTIM.search(record)
        if match:
            pid, *rss = map(int, match.groups())
            found.append(Victim(pid, sum(rss)))


@lru_cache(maxsize=1)
def _open_log(_pid: int) -> Optional[int]:
    """A descriptor for the kernel log, which this process keeps."""
    try:
        return os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _is_in_container() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE
    except OSError:
        return True


@lru_cache(maxsize=None)
def _own_group(is_container: bool) -> Optional[str]:
    """The file with the kill count of a control group that has only this run; None when there is no such
    group.
    """
    for path, group in memory.groups():
        if _is_own(group, os.environ) or is_container:
            for name in ("memory.events", "memory.oom_control"):
                file = os.path.join(path, name)
                if memory.read_field(file, "oom_kill") is not None:
                    return file
    return None


def _is_own(group: str, environ: Mapping[str, str]) -> bool:
    parts = group.split("/")
    return f"job_{environ.get('SLURM_JOB_ID')}" in parts or parts[-1].startswith(AGENT_PREFIX)


def _count(file: Optional[str]) -> int:
    return 0 if file is None else memory.read_field(file, "oom_kill") or 0
