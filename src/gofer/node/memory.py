"""How much memory processes hold, and how much they may hold: figures of the kernel."""

from __future__ import annotations

import os
from typing import Iterator, Optional, Tuple

from gofer.core import processes

_LIMITS = ("memory.max", "memory.limit_in_bytes")


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


def limit_kib() -> int:
    """What this process and its children may hold: the memory of the machine, or less by a control group."""
    found = [read_field("/proc/meminfo", "MemTotal:") or 0]
    for path, _ in groups():
        for name in _LIMITS:
            try:
                with open(os.path.join(path, name)) as file:
                    found.append(int(file.read()) >> 10)
            except (OSError, ValueError):  # not there, or the word `max`
                continue
    return min(found)


def groups() -> Iterator[Tuple[str, str]]:
    """The control groups for memory that this process is in, the innermost first: folder and name."""
    for mount, own in _hierarchies():
        parts = [part for part in own.split("/") if part]
        # In a container the mount may begin at the container's own group, under which `own` is not.
        while not os.path.isdir(os.path.join(mount, *parts)) and parts:
            parts.pop()
        for count in range(len(parts), -1, -1):
            yield os.path.join(mount, *parts[:count]), "/" + "/".join(parts[:count])


def _hierarchies() -> Iterator[Tuple[str, str]]:
    """The mounts of control groups that can count memory, each with the group of this process there."""
    try:
        with open("/proc/self/cgroup") as file:
            own = {line.split(":", 2)[1]: line.rstrip("\n").split(":", 2)[2] for line in file}
        with open("/proc/self/mounts") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return
    for _, mount, kind, options, *_rest in mounts:
        if kind == "cgroup2" and "" in own:
            yield mount, own[""]
        elif kind == "cgroup" and "memory" in options.split(","):
            name = next((name for name in own if "memory" in name.split(",")), None)
            if name is not None:
                yield mount, own[name]


def read_field(path: str, name: str) -> Optional[int]:
    """The number behind a word in a file of lines `WORD NUMBER`; None where it is not."""
    try:
        with open(path) as file:
            for line in file:
                words = line.split()
                if words[:1] == [name]:
                    return int(words[1])
    except (OSError, ValueError):
        pass
    return None
