"""Control groups that Slurm makes for its nodes on this machine's hierarchies."""

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


def clear(node: str) -> None:
    """Remove the groups of a node whose processes are dead. Idempotent; what is still in use stays."""
    deadline = time.monotonic() + _TIMEOUT_S
    while found := [path for path in _ROOT.glob(f"*/slurm_{node}") if path.is_dir()]:
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
