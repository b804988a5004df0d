"""Control groups of the nodes of clusters on this machine's hierarchies, which all clusters share."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
# Version 1: Slurm 22.05 looks for this file and takes the hierarchy to be absent without it.
_MARK = "release_agent"
_NEEDED = ("memory", "devices", "freezer", "cpuset")
_TIMEOUT_S = 5.0


def usable() -> bool:
    """Whether this machine lets Slurm confine memory and devices."""
    return all(os.access(_ROOT / name / _MARK, os.W_OK) for name in _NEEDED)


def make(group: str) -> None:
    """A group at the top of each hierarchy, in which a node can make groups of its own. Idempotent."""
    for hierarchy in _hierarchies():
        (hierarchy / group).mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            # Version 1: no process can enter a group that has no processors.
            if (hierarchy / group / name).exists() and hierarchy != _ROOT:
                (hierarchy / group / name).write_text((hierarchy / name).read_text())


def members(group: str) -> list[int]:
    """The processes in the group and in all groups below it."""
    found = set()
    for top in (_ROOT / group, *_ROOT.glob(f"*/{group}")):
        for folder, _, _ in os.walk(top):
            with suppress(OSError):  # the group was removed
                found |= set(map(int, Path(folder, "cgroup.procs").read_text().split()))
    return sorted(found)


def clear(group: str) -> None:
    """Remove a group of a node whose processes are dead. Idempotent; what is still in use stays."""
    deadline = time.monotonic() + _TIMEOUT_S
    while found := [path for path in (_ROOT / group, *_ROOT.glob(f"*/{group}")) if path.is_dir()]:
        for top in found:
            for folder, _, _ in os.walk(top, topdown=False):
                # A frozen process does not even die.
                with suppress(OSError):
                    Path(folder, "freezer.state").write_text("THAWED")
                with suppress(OSError):
                    os.rmdir(folder)
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _hierarchies() -> list[Path]:
    """One with version 2; of version 1, that of each controller."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path.parent for path in _ROOT.glob("*/tasks")]
