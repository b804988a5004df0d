"""The inputs of an area, divided among several processes, and what their answers add up to."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzz.areas import AREAS
from fuzz.case import Case
from fuzz.harness import Workplace

_PROGRESS_S = 60.0
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Result(NamedTuple):
    """What is reported of one input."""

    number: int
    status: int | None
    cpu_s: float
    mib: int
    problem: str | None


class Tally:
    """The answers of one area so far."""

    def __init__(self, area: str, seed: int) -> None:
        self.area = area
        self.seed = seed
        self.statuses: Counter[int | None] = Counter()
        self.problems: Counter[str] = Counter()
        self.cpu_s = 0.0
        self.slowest = (0.0, 0)
        self.largest = (0, 0)
        self.began = time.monotonic()

    def add(self, result: Result) -> None:
        self.statuses[result.status] += 1
        self.cpu_s += result.cpu_s
        self.slowest = max(self.slowest, (result.cpu_s, result.number))
        self.largest = max(self.largest, (result.mib, result.number))
        if result.problem is None:
            return
        self.problems[result.problem] += 1
        if self.problems[result.problem] == 1:
            case = case_of(self.seed, self.area, result.number)
            print(f"ODD {self.area} input {result.number}: {result.problem}\n    {case!r}"[:1500], flush=True)

    def line(self) -> str:
        ends = ", ".join(f"{count} x {status}" for status, count in self.statuses.most_common())
        count = self.statuses.total()
        return (
            f"{self.area}: {count} inputs, {self.problems.total()} odd; {ends}; "
            f"{self.cpu_s:.0f} s of CPU ({1000 * self.cpu_s / max(count, 1):.0f} ms each) in "
            f"{time.monotonic() - self.began:.0f} s; most {self.slowest[0]:.1f} s (input {self.slowest[1]}), "
            f"{self.largest[0]} MiB (input {self.largest[1]})"
        )


def case_of(seed: int, area: str, number: int) -> Case:
    """The input of that number: the same in each process and at any time."""
    return AREAS[area](Random(f"{seed}/{area}/{number}"))


def fuzz(area: str, given: argparse.Namespace, home: Path, folder: Path, deadline: float) -> int:
    """How many answers were odd; each distinct one is printed with the number of its input."""
    tally = Tally(area, given.seed)
    shown = time.monotonic()
    for result in _results(area, given, home, folder, deadline):
        if result is not None:
            tally.add(result)
        if time.monotonic() - shown > _PROGRESS_S:
            shown = time.monotonic()
            print(f"… {tally.line()}", flush=True)
    print(tally.line(), flush=True)
    return tally.problems.total()


def _results(
    area: str, given: argparse.Namespace, home: Path, folder: Path, deadline: float
) -> Iterator[Result | None]:
    """The results in the order they come; None now and then while there is nothing new."""
    workers: dict[Connection, int] = {}
    for share in range(min(given.jobs, given.inputs)):
        numbers = range(share, given.inputs, given.jobs)
        reader, writer = Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            reader.close()
            _work(area, given.seed, numbers, Workplace(home, folder / f"worker-{share}"), writer, deadline)
        writer.close()
        workers[reader] = pid
    while workers:
        for one in wait(list(workers), timeout=_PROGRESS_S):
            assert isinstance(one, Connection)
            try:
                yield Result(*one.recv())
            except EOFError:
                status = os.waitpid(workers.pop(one), 0)[1]
                assert status == 0, f"a process of the fuzzer ended with {status}"
        yield None


def _work(
    area: str, seed: int, numbers: range, place: Workplace, results: Connection, deadline: float
) -> None:
    """In a process of its own, which ends here."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        for number in numbers:
            if time.monotonic() > deadline:
                break
            answer = place.run(case_of(seed, area, number))
            left = _end_orphans(may_supervise=answer.status == 0)
            problem = answer.problem() or ("it left a process: " + left if left else None)
            results.send(tuple(Result(number, answer.status, answer.cpu_s, answer.mib, problem)))
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def _end_orphans(*, may_supervise: bool) -> str:
    """End the processes that an input left, which are children of this one now; what they were.

    With `may_supervise`, a supervisor is not named: some random words submit a run.
    """
    names = []
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in children:
            name = Path(f"/proc/{child}/cmdline").read_text(errors="replace").replace("\0", " ")[:200]
            if not (may_supervise and "gofer.queue.program" in name):
                names.append(name)
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)
    return "; ".join(names)
