"""What a process inherits in addition to its environment: umask, niceness, CPU affinity and resource limits.

A run on this machine gets those of the shell that submitted it. Its agent may have been started by another
shell. So the agent sets them in each process between fork and exec, and keeps its own.
"""

from __future__ import annotations

import functools
import os
import resource
from typing import Dict, List, Optional, Sequence, TypedDict

_INFINITE = resource.RLIM_INFINITY
_OTHER_NAME = "RLIMIT_OFILE"  # of RLIMIT_NOFILE
# Numbers of Linux's capabilities.
_CAP_SYS_NICE = 23
_CAP_SYS_RESOURCE = 24


class ProcessLimits(TypedDict, total=False):
    """The limits of a process, in a form for JSON. `limits` has the soft and the hard limit by name."""

    umask: int
    nice: int
    affinity: Sequence[int]
    limits: Dict[str, Sequence[int]]


def read_limits() -> ProcessLimits:
    """The limits of this process."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != _OTHER_NAME]
    return {
        "umask": _read_umask(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "limits": {name: list(resource.getrlimit(getattr(resource, name))) for name in names},
    }


@functools.lru_cache(maxsize=1)
def _read_own(_pid: int) -> ProcessLimits:
    """The limits of this process, read once: an agent does not change its own between two rows."""
    return read_limits()


def _read_umask() -> int:
    """The umask of this process. os.umask can read it only by changing it, which would affect files that
    other threads create, so /proc is read first.
    """
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def differing(wanted: Optional[ProcessLimits]) -> ProcessLimits:
    """The part of `wanted` that differs from this process's own limits; empty when a child needs no
    change.
    """
    if not wanted:
        return {}
    own = _read_own(os.getpid())
    found: ProcessLimits = {}
    if wanted["umask"] != own["umask"]:
        found["umask"] = wanted["umask"]
    if wanted["nice"] != own["nice"]:
        found["nice"] = wanted["nice"]
    if wanted["affinity"] != own["affinity"]:
        found["affinity"] = wanted["affinity"]
    limits = {
        name: pair
        for name, pair in wanted["limits"].items()
        if name in own["limits"] and list(pair) != own["limits"][name]
    }
    if limits:
        found["limits"] = limits
    return found


def apply_limits(wanted: ProcessLimits) -> List[str]:
    """Set the limits for this process, as far as the system allows. Returns a sentence for each that it
    refused.
    """
    problems: List[str] = []
    for name, (soft, hard) in wanted.get("limits", {}).items():
        problems += _limit(name, soft, hard)
    if "affinity" in wanted:
        try:
            os.sched_setaffinity(0, wanted["affinity"])
        except OSError as error:
            problems.append(f"CPU affinity {wanted['affinity']}: {error.strerror}")
    if "nice" in wanted:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, wanted["nice"])
        except OSError as error:
            problems.append(f"niceness {wanted['nice']}: {error.strerror}")
    if "umask" in wanted:
        os.umask(wanted["umask"])
    return problems


def _limit(name: str, soft: int, hard: int) -> List[str]:
    number = getattr(resource, name)
    try:
        resource.setrlimit(number, (soft, hard))
        return []
    except (ValueError, OSError):
        most = resource.getrlimit(number)[1]
    reached = soft if most == _INFINITE or (soft != _INFINITE and soft <= most) else most
    try:
        resource.setrlimit(number, (reached, most))
    except (ValueError, OSError):
        pass  # the limit stays as it is
    # A hard limit that is lower than wanted matters only to a command that raises its own soft limit.
    return [] if reached == soft else [f"{name} {_shown(soft)}: no more than {_shown(most)} is allowed"]


def _shown(value: int) -> str:
    return "unlimited" if value == _INFINITE else str(value)


def widen_affinity() -> None:
    """Let this process use every CPU that the system allows. Children with limits of their own are not
    affected.
    """
    try:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    except OSError:
        pass  # the affinity stays as it is


def too_low(wanted: ProcessLimits, pid: int) -> List[str]:
    """A sentence for each limit that children of the process `pid` cannot get. Empty when the process cannot
    be read. Root has no limits only where it has the capabilities: in a container it often lacks them.
    """
    problems = []
    try:
        may_raise, may_speed_up = _has_capabilities(pid, _CAP_SYS_RESOURCE, _CAP_SYS_NICE)
        for name, (soft, _) in wanted["limits"].items():
            most = resource.prlimit(pid, getattr(resource, name))[1]
            if not may_raise and most != _INFINITE and (soft == _INFINITE or soft > most):
                problems.append(f"{name} {_shown(soft)}: no more than {_shown(most)} is allowed")
        least = os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        return []
    if wanted["nice"] < least and not may_speed_up:
        problems.append(f"niceness {wanted['nice']}: no less than {least} is allowed")
    return problems


def _has_capabilities(pid: int, *numbers: int) -> List[bool]:
    """Whether a process has each of these capabilities; where the system does not say, root has them."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("CapEff:"):
                held = int(line.split()[1], 16)
                return [bool(held >> number & 1) for number in numbers]
    return [os.geteuid() == 0 for _ in numbers]
