"""The processes of one home: how to identify them exactly, and how to send signals to exactly them.

A process counts as gofer's only if pid, start time and command line fit together. Signals go through a pidfd
that is opened before the last check, so that a reused pid never gets one.
"""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from drill.home import Home


class Process(NamedTuple):
    """One process of this machine for as long as it is up."""

    pid: int
    start: int


class Facts(NamedTuple):
    """What /proc says of a process that is not a zombie."""

    who: Process
    parent: int
    state: str


def read_process(pid: int) -> Facts | None:
    """None when there is no such process, or only its remains."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    state = fields[0].decode()
    return None if state in "ZX" else Facts(Process(pid, int(fields[19])), int(fields[1]), state)


def read_proc(pid: int, name: str) -> bytes:
    """Empty when the process is gone or not ours to read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def serves_queue(pid: int, home: Home) -> bool:
    """Whether its command line is that of a supervisor (or an agent, its fork) of this home."""
    words = read_proc(pid, "cmdline").rstrip(b"\0").split(b"\0")
    return words[-1] == os.fsencode(home.queue_home) and b"gofer.queue" in b" ".join(words)


def supervisor(home: Home) -> Process | None:
    """The supervisor that holds the lock; None while there is none."""
    try:
        pid = int((home.queue_home / "supervisor.lock").read_bytes())
    except (OSError, ValueError):
        return None
    found = read_process(pid)
    return found.who if found is not None and serves_queue(pid, home) else None


def agents(home: Home, supervisor_process: Process | None, known: set[Process]) -> list[Process]:
    """Agents: children of `supervisor_process`, and orphans whose identity is among the `known` ones.

    A fork of an agent that is about to become a rank has the same command line and another parent: no agent.
    """
    found = []
    for pid in all_pids():
        facts = read_process(pid)
        if facts is None or facts.who == supervisor_process or not serves_queue(pid, home):
            continue
        if facts.who in known or (
            supervisor_process is not None
            and facts.parent == supervisor_process.pid
            and read_process(supervisor_process.pid)
        ):
            found.append(facts.who)
    return found


def send_signal(who: Process, number: int = signal.SIGKILL) -> bool:
    """Signal exactly this process; False when it is gone."""
    try:
        handle = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return False
    try:
        facts = read_process(who.pid)
        if facts is None or facts.who != who:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def left_over(home: Home, run_ids: set[str]) -> list[str]:
    """Every process that belongs to this home: by its command line, or by a run id in its environment."""
    found = []
    queue_home = os.fsencode(home.gofer_home)
    for pid in all_pids():
        if pid == os.getpid() or read_process(pid) is None:
            continue
        line, environ = read_proc(pid, "cmdline"), read_proc(pid, "environ").split(b"\0")
        ours = {os.fsdecode(one[13:]) for one in environ if one.startswith(b"GOFER_RUN_ID=")} & run_ids
        if queue_home in line or ours:
            words = os.fsdecode(line.replace(b"\0", b" "))[:200]
            found.append(f"{pid} {words} {' '.join(ours)}")
    return found
