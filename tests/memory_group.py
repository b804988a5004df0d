"""A control group with little memory, and a command that takes more than it has."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import until

EAT = """
import sys, time
hoard = []
while True:
    hoard.append(bytearray(b"x") * (1 << 22))
"""


@pytest.fixture
def small_group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cgroup with 64 MiB, for a command to move itself into. A parameter of the test is its name."""
    found = _make_group(64 << 20, getattr(request, "param", f"gofer-test-{os.getpid()}"))
    if found is None:
        pytest.skip("no memory cgroup can be made here")
    yield found
    for _ in range(500):
        try:
            found.rmdir()
            break
        except OSError:
            until(lambda: not (found / "cgroup.procs").read_text(), "the group to be empty")


def _make_group(limit: int, name: str) -> Path | None:
    for kind, controllers, mount in _memory_mounts():
        own = next(line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()
                   if line.split(":", 2)[1] == controllers)  # fmt: skip
        group = Path(mount) / own.lstrip("/") / name
        try:
            if kind == "cgroup2":
                (group.parent / "cgroup.subtree_control").write_text("+memory")
            group.mkdir()
            names = (
                ["memory.max", "memory.swap.max"]
                if kind == "cgroup2"
                else ["memory.limit_in_bytes", "memory.swappiness"]
            )
            (group / names[0]).write_text(str(limit))
            if (group / names[1]).exists():
                (group / names[1]).write_text("0")
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        return group
    return None


def _memory_mounts() -> Iterator[tuple[str, str, str]]:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, options = line.split()[:4]
        if kind == "cgroup" and "memory" in options.split(","):
            yield kind, "memory", mount
        if kind == "cgroup2":
            yield kind, "", mount


def eating(group: Path) -> str:
    return f"echo 0 > {group}/cgroup.procs; exec {sys.executable} -c '{EAT}'"
