"""Facts about processes on Linux, and how to end all of them.

A process is named by pid and start time together, since pids are used again. Nothing here signals a process
that it did not identify by start time, parentage, session, cgroup or the run id in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Collection, Iterable, NamedTuple

from gofer.core.numerals import parse_count
from gofer.core.sleep import pause

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_EMPTY_LOOKS = 3


class ProcessIdentity(NamedTuple):
    """One process for as long as the machine is up."""

    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.pid}:{self.start}"


class Stat(NamedTuple):
    """What the walk needs of /proc/<pid>/stat."""

    parent: int
    session: int
    state: str
    start: int


def adopt_orphans(adopts: bool = True) -> None:
    """Become the parent of every descendant whose own parent ends; or no longer."""
    import ctypes  # slow to load, and only an agent needs it

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def end_with_parent(number: int) -> None:
    """Have the kernel send this signal when the process that forked this one ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may hold anything, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def identify(pid: int) -> ProcessIdentity | None:
    found = stat(pid)
    return None if found is None or found.state in "ZX" else ProcessIdentity(pid, found.start)


def is_alive(who: ProcessIdentity) -> bool:
    return identify(who.pid) == who


def name_of_this() -> str:
    """A name of this process that is unique on this machine, also after a restart of the machine."""
    return f"{identify(os.getpid())}:{boot_id()}"


def is_named_alive(name: str) -> bool:
    """Whether the process that `name_of_this` named still runs on this machine. False for any other text."""
    process, _, boot = name.rpartition(":")
    if boot != boot_id():
        return False
    pid, start = (parse_count(word) for word in process.partition(":")[::2])
    return pid is not None and start is not None and is_alive(ProcessIdentity(pid, start))


def send(who: ProcessIdentity, sig: int) -> bool:
    """Signal exactly that process; False when it is gone."""
    if not is_alive(who):
        return False
    try:
        os.kill(who.pid, sig)
    except ProcessLookupError:
        return False
    return True


def all_processes() -> dict[int, Stat]:
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = stat(int(name))
            if found is not None:
                table[int(name)] = found
    return table


def descendants(root: int, table: dict[int, Stat], *, spared: Collection[int] = ()) -> set[int]:
    """All processes below `root`, without those `spared` and what is below them."""
    children: dict[int, list[int]] = {}
    for pid, found in table.items():
        children.setdefault(found.parent, []).append(pid)
    result: set[int] = set()
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in result and child not in spared:
                result.add(child)
                todo.append(child)
    return result


def having_environment(entry: str, table: Iterable[int]) -> set[int]:
    """The processes that were started with this `NAME=value` in their environment."""
    wanted = b"\0" + os.fsencode(entry) + b"\0"
    found = set()
    for pid in table:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in b"\0" + file.read():
                    found.add(pid)
        except OSError:
            continue  # gone, or another user's
    return found


def kill_until_gone(select: Callable[[dict[int, Stat]], set[int]], *, timeout_s: float = 10.0) -> set[int]:
    """SIGKILL what `select` finds, look again, until it finds nothing; what is left when time is up.

    Looking again is what catches a process forked between the look and the kill, and finding nothing once
    proves little where processes follow each other quickly. One that forks faster than it can be looked at is
    surely ended only by a cgroup.
    """
    deadline = time.monotonic() + timeout_s
    empty_looks = 0
    while True:
        table = all_processes()
        left = {pid for pid in select(table) if pid in table and table[pid].state not in "ZX"}
        left.discard(os.getpid())
        empty_looks = 0 if left else empty_looks + 1
        if empty_looks == _EMPTY_LOOKS or time.monotonic() > deadline:
            return left
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        pause(0.002)


def close_all_but(kept: set[int]) -> None:
    """Close all file descriptors of this process except these."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself
