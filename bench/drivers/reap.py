"""`reap.py REPORT TIMEOUT_S LINGER_LIMIT_S CORES ARGV…`: runs ARGV and all it leaves behind, adds up costs.
costs.

A server that a command starts in the background is no longer its child, so its CPU would not be counted and
its staying would not be seen. This program makes itself the adoptive parent of all orphans below it
(PR_SET_CHILD_SUBREAPER, Linux 3.4): it is done when no descendant is alive, whatever they did to detach.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.01


class Tally:
    """Costs of the processes waited for so far; each brings those of the children it waited for itself."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        self.cpu_s = 0.0
        self.rss_mib = 0.0

    def take(self, waited: tuple[int, int, resource.struct_rusage]) -> None:
        pid, status, usage = waited
        self.ended[pid] = status
        self.cpu_s += usage.ru_utime + usage.ru_stime
        self.rss_mib = max(self.rss_mib, usage.ru_maxrss / 1024)


def main(arguments: Sequence[str]) -> int:
    """Writes the family's costs to REPORT; ends with 1 when the command failed, 124 when it took too long."""
    report, timeout_s, linger_limit_s, cores, *argv = arguments
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no child subreaper")
    if int(cores) > 0:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(timeout_s))
    try:
        status, costs = live(argv, float(linger_limit_s))
    except TimeoutError:
        kill_children()
        return 124
    Path(report).write_text(json.dumps(costs), encoding="utf-8")
    return int(status != 0)


def give_up(number: int, frame: object) -> None:
    raise TimeoutError


def live(argv: Sequence[str], linger_limit_s: float) -> tuple[int, dict[str, object]]:
    """Runs `argv`, then waits for its orphans; its exit status, and what all of them cost."""
    tally = Tally()
    started = time.perf_counter()
    command = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL)
    while command.pid not in tally.ended:
        tally.take(os.wait4(-1, 0))
    wall_s = time.perf_counter() - started
    signal.alarm(0)
    command.returncode = os.waitstatus_to_exitcode(tally.ended[command.pid])
    left, linger_s = outlive(tally, linger_limit_s)
    costs = {"wall_s": wall_s, "cpu_s": tally.cpu_s, "rss_mib": tally.rss_mib}
    return command.returncode, {**costs, "linger_s": linger_s, "left": left}


def outlive(tally: Tally, limit_s: float) -> tuple[list[str], float]:
    """Command lines of those that had to be killed, and how long it took until the last one was gone."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < limit_s:
        try:
            waited = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return [], time.perf_counter() - begun
        if waited[0] == 0:
            time.sleep(_POLL_S)
        else:
            tally.take(waited)
    return kill_children(), limit_s


def kill_children() -> list[str]:
    """Kills the adopted, then those that their deaths orphan, and so on; their command lines."""
    killed = []
    for _ in range(100):
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        if not children:
            break
        for pid in map(int, children):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            killed.append(line.decode(errors="replace").strip())
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return killed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
