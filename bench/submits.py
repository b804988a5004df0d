"""(b) One small command: how long until the prompt is back, and until the command's first instruction."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import idle, measure
from bench.errors import BenchError
from bench.places import DRIVERS, gofer_argv
from bench.plan import Plan
from bench.report import Section, Table, pair
from bench.rounds import Competitor, interleave

FIRST = "gofer submit, nothing running"
AGAIN = "gofer submit, supervisor awake"
PEERS = ("submitit LocalExecutor", "torchx local_cwd")
TIMEOUT_S = 60


@dataclass(frozen=True)
class Launch:
    """Seconds from the start of the submitting process."""

    returned_s: float
    first_instruction_s: float


def section(plan: Plan) -> Section:
    """Blocks for `plan.submit_rounds` rounds."""
    outcome = interleave(_competitors(plan), plan.submit_rounds, warm_ups=1)
    returned = outcome.figures(lambda launch: launch.returned_s)
    first = outcome.figures(lambda launch: launch.first_instruction_s)
    rows = [(name, *pair(returned[name], 1000), *pair(first[name], 1000)) for name in returned]
    columns = (
        "",
        "return min ms",
        "return median ms",
        "first instruction min ms",
        "first instruction median ms",
    )
    return Section(
        "b",
        "Submitting one command",
        f"Wall clock from the start of the submitting process, {plan.submit_rounds} rounds in turn, in a "
        "folder of ten small files. The command is the same for all, `sh -c 'echo > FIFO'`, as short as "
        "`true`; its first instruction is when the other end of the FIFO, opened beforehand, becomes "
        "readable. gofer's return is the exit of `gofer submit`; the peers' is the return of the Python "
        "call in a new interpreter, its exit not counted.",
        (Table(columns, tuple(rows)),),
        (),
        outcome.failures,
    )


def _competitors(plan: Plan) -> list[Competitor[Launch]]:
    project = plan.places.fresh("project")
    for number in range(10):
        (project / f"module_{number}.py").write_text(f"ANSWER = {number}\n" * 50, encoding="ascii")
    home = plan.places.fresh("gofer")
    env = plan.places.gofer_environment(home)
    return [
        Competitor(FIRST, _gofer(env, home, project, awake=False)),
        Competitor(AGAIN, _gofer(env, home, project, awake=True)),
        Competitor(PEERS[0], _driver(plan, "submitit", "submitit_submit.py", project)),
        Competitor(PEERS[1], _driver(plan, "torchx", "torchx_submit.py", project)),
    ]


def _gofer(env: Mapping[str, str], home: Path, project: Path, *, awake: bool) -> Callable[[], Launch]:
    def attempt() -> Launch:
        if awake:
            launch([*gofer_argv(), "submit"], env, project, home / "fifo")
        else:
            idle.wait_until_alone(home, TIMEOUT_S)
        return launch([*gofer_argv(), "submit"], env, project, home / "fifo")

    return attempt


def _driver(plan: Plan, peer: str, script: str, project: Path) -> Callable[[], Launch]:
    def attempt() -> Launch:
        folder = plan.places.fresh(peer)
        argv = [plan.peers.program(peer, "python"), str(DRIVERS / script), str(folder / "jobs")]
        return launch(argv, plan.places.environment(), project, folder / "fifo")

    return attempt


def launch(prefix: Sequence[str], env: Mapping[str, str], cwd: Path, fifo: Path) -> Launch:
    """Starts `prefix` + a command that writes to `fifo`; blocks until it has, and the starter is gone.

    Raises BenchError when the starter fails or either takes too long.
    """
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with measure.scratch_file() as out, measure.scratch_file() as err:
        started = time.perf_counter()
        process = measure.start([*prefix, "sh", "-c", f"echo > {fifo}"], env, cwd, out, err)
        try:
            exited, written = _watch(process, reader)
        except BenchError as error:
            raise BenchError(f"`{' '.join(prefix)}`: {error}: {measure.text(err).strip()[-200:]}") from None
        finally:
            os.close(reader)
        return Launch(_returned(measure.text(out), exited) - started, written - started)


def _watch(process: subprocess.Popen[bytes], reader: int) -> tuple[float, float]:
    """When the process exited and when the FIFO was written to, whichever comes first."""
    handle = os.pidfd_open(process.pid)
    times: dict[int, float] = {}
    try:
        while len(times) < 2:
            waiting = [fd for fd in (handle, reader) if fd not in times]
            ready, _, _ = select.select(waiting, [], [], TIMEOUT_S)
            times.update(dict.fromkeys(ready, time.perf_counter()))
            if not ready:
                process.kill()
                process.wait()
                raise BenchError(f"the command did not start within {TIMEOUT_S} s")
            if handle in ready and process.wait() != 0:
                raise BenchError(f"it ended with {process.returncode}")
    finally:
        os.close(handle)
    return times[handle], times[reader]


def _returned(output: str, exited: float) -> float:
    """A driver prints when its call returned; without that the process's exit is the return."""
    try:
        return float(json.loads(output)["returned"])
    except (ValueError, TypeError, KeyError):
        return exited
