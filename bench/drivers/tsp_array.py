"""`tsp_array.py TSP COUNT (submitted|queued)`: `true` COUNT times through task-spooler with two slots.

`submitted`: one shell loop adds the jobs while they run. `queued`: the jobs are added behind one that waits,
in batches of 500 because a queued job is a process and a connection and tsp stops taking them near 1,000;
the clock runs only while a batch does. tsp keeps times in whole seconds, so the clock is ours: from the
release to the return of `tsp -w` on a job added last. TS_SOCKET and TMPDIR isolate it; output is discarded
(`-n`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

BATCH = 500


def ask(tsp: str, *arguments: str) -> str:
    """stdout of one tsp call, through a file: a queued job keeps a pipe open."""
    with open("answer", "w+", encoding="utf-8") as out:
        subprocess.run([tsp, *arguments], stdin=subprocess.DEVNULL, stdout=out, check=True, timeout=120)
        out.seek(0)
        return out.read().strip()


def add(tsp: str, count: int) -> None:
    loop = 'i=0; while [ $i -lt "$1" ]; do "$0" -n true || exit 1; i=$((i+1)); done'
    subprocess.run(
        ["sh", "-c", loop, tsp, str(count)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=300,
    )


def submitted(tsp: str, count: int) -> float:
    """Seconds from the first submission to the end of the last job."""
    ask(tsp, "-S", "2")
    started = time.perf_counter()
    add(tsp, count - 1)
    ask(tsp, "-w", ask(tsp, "true"))
    return time.perf_counter() - started


def queued(tsp: str, count: int) -> float:
    """Seconds in which the batches ran, without the time it took to queue them."""
    gate = os.path.abspath("gate")
    os.mkfifo(gate)
    took_s = 0.0
    for first in range(0, count, BATCH):
        ask(tsp, "-S", "1")
        ask(tsp, "sh", "-c", f"read go < {gate}")
        add(tsp, min(BATCH, count - first) - 1)
        last = ask(tsp, "true")
        ask(tsp, "-S", "2")
        started = time.perf_counter()
        with open(gate, "w", encoding="ascii") as opened:
            opened.write("go\n")
        ask(tsp, "-w", last)
        took_s += time.perf_counter() - started
    return took_s


def main(tsp: str, count: int, way: str) -> None:
    asked = time.perf_counter()
    try:
        run_s = submitted(tsp, count) if way == "submitted" else queued(tsp, count)
        whole_s = time.perf_counter() - asked
    finally:
        ask(tsp, "-K")
    print(json.dumps({"run_s": run_s, "whole_s": whole_s, "count": count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
