"""Give each agent a cgroup where the machine allows it: the surest way to end all processes of a run.

This needs version 2 with `cgroup.kill` (Linux 5.14) and permission to create groups. Elsewhere callers find
processes by session, parent and the run id in the environment.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Collection

from gofer.core.sleep import pause

AGENT_PREFIX = "gofer-agent-"
_PROBE = "gofer-probe-"


def find_parent() -> str | None:
    """The folder in which this process may create cgroups; None when there is none."""
    mount = _mount_point()
    own = _own_group()
    if mount is None or own is None:
        return None
    parent = os.path.join(mount, own.lstrip("/"))
    probe = os.path.join(parent, f"{_PROBE}{os.getpid()}")
    try:
        for name in os.listdir(parent):
            if name.startswith(_PROBE) and not os.path.exists(f"/proc/{name[len(_PROBE) :]}"):
                remove(os.path.join(parent, name))  # left by a process that was killed during this check
        os.mkdir(probe)
        usable = os.access(os.path.join(probe, "cgroup.kill"), os.W_OK)
        os.rmdir(probe)
    except OSError:
        return None
    return parent if usable and os.access(os.path.join(parent, "cgroup.procs"), os.W_OK) else None


def _mount_point() -> str | None:
    try:
        with open("/proc/self/mounts") as file:
            for line in file:
                fields = line.split()
                if fields[2] == "cgroup2":
                    return fields[1]
    except OSError:
        pass
    return None


def _own_group(pid: int | None = None) -> str | None:
    try:
        with open(f"/proc/{pid or 'self'}/cgroup") as file:
            for line in file:
                if line.startswith("0::"):
                    return line[3:].rstrip("\n")
    except OSError:
        pass
    return None


def create(path: str) -> str | None:
    """Create the group, or reuse one that an earlier start left; None when the machine refuses."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return path
    except OSError:
        return None
    return path


def join(path: str) -> bool:
    """Move the calling process into the group; False when the group is absent or the machine refuses."""
    try:
        fd = os.open(os.path.join(path, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, b"0")
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def remove(path: str) -> None:
    """Remove the group if it is empty. Errors are ignored."""
    try:
        os.rmdir(path)
    except OSError:
        pass


def members(path: str) -> list[int]:
    try:
        with open(os.path.join(path, "cgroup.procs")) as file:
            return [int(line) for line in file]
    except OSError:
        return []


def group_of(pid: int, prefix: str) -> str | None:
    """The folder of a process's group; None when the process is gone or the group's name does not begin with
    `prefix`.
    """
    mount, own = _mount_point(), _own_group(pid)
    if mount is None or own is None or not os.path.basename(own).startswith(prefix):
        return None
    return os.path.join(mount, own.lstrip("/"))


def leave(prefix: str) -> None:
    """If the caller's group has a name with this prefix, move the caller to the group above."""
    mount, own = _mount_point(), _own_group()
    if mount is not None and own is not None and os.path.basename(own).startswith(prefix):
        join(os.path.join(mount, os.path.dirname(own).lstrip("/")))


def kill_others(path: str, *, spared: Collection[int], timeout_s: float = 10.0) -> None:
    """End every process in the group except the caller and `spared`. Blocks for `timeout_s` at most."""
    kept = {os.getpid(), *spared}
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        others = [pid for pid in members(path) if pid not in kept]
        if not others:
            return
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        pause(0.002)


def kill(path: str, *, timeout_s: float = 10.0) -> bool:
    """End every process in the group, and remove the group; False when it is still there after `timeout_s`.
    Blocks.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            os.rmdir(path)
            return True
        except FileNotFoundError:
            return True
        except OSError:
            _write(os.path.join(path, "cgroup.kill"))
        if time.monotonic() > deadline:
            return False
        pause(0.002)


def _write(path: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"1")
    except OSError:
        pass
    finally:
        os.close(fd)
