"""Check this machine: programs, GPUs, ways to end processes, the queue and its supervisor."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.model.checks import Check, Status

if TYPE_CHECKING:
    from gofer.queue.database import Queue


def check_programs(path: str) -> Iterator[Check]:
    """Check Python and the programs that gofer starts, on the PATH `path`."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", Status.OK, f"{version} at {sys.executable}")
    bash = shutil.which("bash", path=path)
    if bash:
        yield Check("bash", Status.OK, bash)
    else:
        yield Check("bash", Status.FAIL, "not on the PATH; set-up scripts run under it", "install bash")
    git = shutil.which("git", path=path)
    if git:
        yield Check("git", Status.OK, git)
    else:
        words = "not on the PATH; runs will not record their commit; everything else works"
        yield Check("git", Status.WARN, words, "install git")


def check_gpus() -> Iterator[Check]:
    """The GPUs that NVIDIA's driver shows."""
    from gofer.core.gpus import open_driver

    nvml = open_driver()
    if nvml is None:
        yield Check("gpus", Status.OK, "no NVIDIA driver; a local target may still set `gpus:`")
        return
    try:
        count, driver = nvml.count(), nvml.driver()
    finally:
        nvml.close()
    if count:
        yield Check("gpus", Status.OK, f"{count} seen, driver {driver}")
    else:
        yield Check("gpus", Status.WARN, f"the driver {driver} shows none", "`nvidia-smi` may say why")


def check_endings() -> Iterator[Check]:
    """Check how reliably all processes of a run can be ended."""
    from gofer.node import cgroups

    parent = cgroups.find_parent()
    if parent is not None:
        yield Check("ending runs", Status.OK, f"by cgroup, under {parent}")
    else:
        words = "no permission to make cgroups; by session, parent and run id instead"
        yield Check("ending runs", Status.OK, words)


def check_queue(queue_home: str) -> Iterator[Check]:
    """Check this machine's queue: whether a supervisor works it off, and whether ended runs left
    processes.
    """
    from gofer.node.work_folders import long_root
    from gofer.queue import wake
    from gofer.queue.database import Queue

    if not os.path.exists(os.path.join(queue_home, "queue.db")):
        yield Check("engine", Status.OK, "no run was queued on this machine yet")
        return
    queue = Queue(queue_home)
    try:
        count = sum(queue.counts().values())
        if wake.poke(queue_home):
            yield Check("engine", Status.OK, f"a supervisor is at work; open runs: {count}")
        elif count:
            words = f"no supervisor is at work; open runs: {count}"
            yield Check("engine", Status.WARN, words, "`gofer list runs` starts one")
        else:
            yield Check("engine", Status.OK, "idle; a supervisor starts when there is work")
        yield from _check_strays(queue)
    finally:
        queue.close()
    root = long_root(queue_home)
    if root is not None:
        words = f"the path of working copies in {root} is too long for Unix sockets in them"
        hint = "set `GOFER_HOME` or `GOFER_WORK_DIR` to a folder with a shorter path that only you can write"
        yield Check("working copies", Status.WARN, words, hint)


def _check_strays(queue: Queue) -> Iterator[Check]:
    """Warn about processes of runs that this queue has ended. Runs of other queues are not checked."""
    from gofer.core.states import FINAL_STATES
    from gofer.model.ids import split_row

    pids = dict(_processes_of_runs())
    seen = queue.observe({split_row(run_id)[0] for run_id in pids.values()})
    ended = {one.id for one in seen if one.state in list(FINAL_STATES)}
    strays = sorted(pid for pid, run_id in pids.items() if run_id in ended)
    if strays:
        listed = " ".join(map(str, strays[:10]))
        words = f"processes of ended runs that are still alive: {len(strays)}"
        yield Check("engine", Status.WARN, words, f"`kill {listed}`")


def _processes_of_runs() -> Iterator[tuple[int, str]]:
    """(pid, run id) of the processes of this user that a run started."""
    mark = b"GOFER_RUN_ID="
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue  # gone, or another user's
        for entry in entries:
            if entry.startswith(mark):
                yield int(name), os.fsdecode(entry[len(mark) :])
