"""A cgroup for each started run where the machine allows one: the surest way to end all its processes.

Only version 2 with `cgroup.kill` is used (Linux 5.14). Without permission to make one, callers fall back to
sessions, parentage and the run id in the environment.
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
    """The folder under which this process may make cgroups, or None."""
    mount = _mount_point()
    own = _own_group()
    if mount is None or own is None:
        return None
    parent = os.path.join(mount, own.lstrip("/"))
    probe = os.path.join(parent, f"{_PROBE}{os.getpid()}")
    try:
        for name in os.listdir(parent):
            if name.startswith(_PROBE) and not os.path.exists(f"/proc/{name[len(_PROBE) :]}"):
                remove(os.path.join(parent, name))  # of a process that was killed while it looked
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
    """Make the group, or take one left by an earlier start; None when the machine refuses."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return path
    except OSError:
        return None
    return path


def join(path: str) -> bool:
    """Move the calling process into the group; False when it is not there or the machine refuses."""
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
    """Remove the group if nothing is in it."""
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
    """The folder of a process's group; None when it is gone, or the group's name does not begin so."""
    mount, own = _mount_point(), _own_group(pid)
    if mount is None or own is None or not os.path.basename(own).startswith(prefix):
        return None
    return os.path.join(mount, own.lstrip("/"))


def leave(prefix: str) -> None:
    """Move the caller up, out of a group whose name begins so."""
    mount, own = _mount_point(), _own_group()
    if mount is not None and own is not None and os.path.basename(own).startswith(prefix):
        join(os.path.join(mount, os.path.dirname(own).lstrip("/")))


def kill_others(path: str, *, spared: Collection[int], timeout_s: float = 10.0) -> None:
    """End every process in the group but the caller and those spared."""
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
    """End every process in the group and remove it; True when nothing is left."""
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
