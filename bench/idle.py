"""(e) What stays when nothing runs: the processes that belong to one GOFER_HOME, found through /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from bench import family
from bench.errors import BenchError
from bench.family import Limits
from bench.figures import count_at_most, number
from bench.places import DRIVERS, gofer_argv
from bench.plan import Plan
from bench.report import Section, Table

LINGER_LIMIT_S = 60


def section(plan: Plan) -> Section:
    """Blocks for one small array and the time its supervisor lingers."""
    home = plan.places.fresh("gofer")
    project = plan.places.fresh("project")
    method = (
        "After an array of 20 has ended and been waited for: every descendant of the commands is followed "
        f"to its end, however it detached, for at most {LINGER_LIMIT_S} s; then all of /proc is searched "
        "for the home's path."
    )
    try:
        seen = family.run(
            [sys.executable, str(DRIVERS / "gofer_array.py"), "20", *gofer_argv()],
            env=plan.places.gofer_environment(home),
            cwd=project,
            limits=Limits(timeout_s=120, linger_s=LINGER_LIMIT_S),
        )
    except BenchError as error:
        bar = count_at_most("no process left when no run is active", 0, None, "")
        return Section("e", "Idle", method, (), (bar,), {"gofer": str(error)})
    left = len(seen.left) + len(belonging(home))
    table = Table(
        ("", "measured"),
        (
            ("processes left", str(left)),
            ("seconds from the last command to the last process's end", number(seen.linger_s)),
        ),
    )
    notes = tuple(f"left: `{line}`" for line in seen.left)
    bar = count_at_most("no process left when no run is active", 0, left, "processes")
    return Section("e", "Idle", method, (table,), (bar,), {}, notes)


def belonging(home: Path) -> list[int]:
    """Processes other than this one with `home` in their environment or command line, now.

    Processes of other users cannot be read and are skipped, like processes that end meanwhile.
    """
    wanted = os.fsencode(home)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if wanted in text:
            found.append(int(entry.name))
    return found


def sweep(folder: Path) -> None:
    """Kills what still belongs to `folder`: a benchmark that failed must not leave its runs behind."""
    for _ in range(20):
        pids = belonging(folder)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def wait_until_alone(home: Path, timeout_s: float) -> None:
    """Blocks until no process belongs to `home`; BenchError when one outstays `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while pids := belonging(home):
        if time.monotonic() > deadline:
            raise BenchError(f"processes {pids} of the last run were still there after {timeout_s} s")
        time.sleep(0.1)
