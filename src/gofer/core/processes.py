"""Read facts about processes on Linux, and end whole groups of them.

A process is identified by pid and start time together, since Linux reuses pids. A process is signalled only
when it was identified by start time, parent, session, cgroup or the run id in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Collection, Iterable, NamedTuple

from gofer.core.json_text import parse_count
from gofer.core.sleep import pause

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# How often in a row a listing of /proc must show no process before there is none: a fork during the listing
# can hide its child once.
_EMPTY_LISTINGS = 3


class ProcessIdentity(NamedTuple):
    """One process, unique until the machine restarts."""

    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.pid}:{self.start}"


class Stat(NamedTuple):
    """The fields of /proc/<pid>/stat that this module needs."""

    parent: int
    session: int
    state: str
    start: int


def adopt_orphans(adopts: bool = True) -> None:
    """Make this process the parent of every descendant whose own parent ends. False switches this off."""
    import ctypes  # slow to load, and only an agent needs it

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def end_with_parent(number: int) -> None:
    """Have the kernel send this process the signal when its parent ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def boot_id() -> str:
    """A text of the kernel that differs after each start of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def stat(pid: int) -> Stat | None:
    """The fields of one process; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the command is in parentheses and may itself contain any character, even parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a process; None when there is none, or only its exit status is left (a zombie)."""
    found = stat(pid)
    return None if found is None or found.state in "ZX" else ProcessIdentity(pid, found.start)


def is_alive(who: ProcessIdentity) -> bool:
    return identify(who.pid) == who


def name_of_this() -> str:
    """A name for this process that is unique on this machine, even across restarts of the machine."""
    return f"{identify(os.getpid())}:{boot_id()}"


def is_named_alive(name: str) -> bool:
    """Whether the process with this name of `name_of_this` still runs on this machine. False for any other
    text.
    """
    process, _, boot = name.rpartition(":")
    if boot != boot_id():
        return False
    pid, start = (parse_count(word) for word in process.partition(":")[::2])
    return pid is not None and start is not None and is_alive(ProcessIdentity(pid, start))


def send(who: ProcessIdentity, sig: int) -> bool:
    """Send a signal to exactly this process; False when the process is gone."""
    if not is_alive(who):
        return False
    try:
        os.kill(who.pid, sig)
    except ProcessLookupError:
        return False
    return True


def all_processes() -> dict[int, Stat]:
    """Every process that this user can see, by pid. Not one moment: processes start and end meanwhile."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = stat(int(name))
            if found is not None:
                table[int(name)] = found
    return table


def descendants(root: int, table: dict[int, Stat], *, spared: Collection[int] = ()) -> set[int]:
    """All descendants of `root`, without the processes `spared` and their descendants."""
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
    """The processes of `table` that were started with this `NAME=value` in their environment."""
    wanted = b"\0" + os.fsencode(entry) + b"\0"
    found = set()
    for pid in table:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in b"\0" + file.read():
                    found.add(pid)
        except OSError:
            continue  # the process is gone, or belongs to another user
    return found


def kill_until_gone(select: Callable[[dict[int, Stat]], set[int]], *, timeout_s: float = 10.0) -> set[int]:
    """SIGKILL the processes that `select` finds, and repeat until it finds none. Blocks. Returns the
    processes that are left after `timeout_s`.

    A process may fork between the listing and the kill, so one pass is not enough, and one empty listing
    proves little. `select` must find nothing several times in a row. A process that forks faster than this
    can be ended only by its cgroup.
    """
    deadline = time.monotonic() + timeout_s
    empty_listings = 0
    while True:
        table = all_processes()
        left = {pid for pid in select(table) if pid in table and table[pid].state not in "ZX"}
        left.discard(os.getpid())
        empty_listings = 0 if left else empty_listings + 1
        if empty_listings == _EMPTY_LISTINGS or time.monotonic() > deadline:
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
