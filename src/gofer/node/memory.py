"""How much memory processes use, and how much they may use, according to the kernel."""

from __future__ import annotations

import os
import re
from typing import Iterator, Optional, Tuple

from gofer.core import processes

_LIMITS = ("memory.max", "memory.limit_in_bytes")


def resident_mib(pids: list[int]) -> int:
    """The memory in MiB of these processes and their descendants. Shared pages count more than once."""
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
    """How much memory this process and its children may use: that of the machine, or the limit of a control
    group.
    """
    found = [read_field("/proc/meminfo", "MemTotal:") or 0]
    for path, _ in groups():
        for name in _LIMITS:
            try:
                with open(os.path.join(path, name)) as file:
                    found.append(int(file.read()) >> 10)
            except (OSError, ValueError):  # the file is absent, or holds the word `max`
                continue
    return min(found)


def groups() -> Iterator[Tuple[str, str]]:
    """The memory control groups of this process, the innermost first, as (folder, name)."""
    for mount, own in _hierarchies():
        parts = [part for part in own.split("/") if part]
        # In a container the mount may show only the container's own group, so the path `own` does not exist
        # in it.
        while not os.path.isdir(os.path.join(mount, *parts)) and parts:
            parts.pop()
        for count in range(len(parts), -1, -1):
            yield os.path.join(mount, *parts[:count]), "/" + "/".join(parts[:count])


def _hierarchies() -> Iterator[Tuple[str, str]]:
    """The mounts of control groups that count memory, each with the group of this process in it."""
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
    """The number after a word in a file of lines `WORD NUMBER`; None when it is not found."""
    try:
        with open(path, "rb", buffering=0) as file:
            found = re.search(rb"^%b[ \t]+(\d+)\b" % name.encode(), file.read(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1])
