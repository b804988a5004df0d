"""Runs one command and says what it cost: wall clock, CPU of it and its waited-for children, peak memory."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.errors import BenchError


@dataclass(frozen=True)
class Sample:
    """One run of one command. `rss_mib` cannot be less than the measuring process's own size, see
    `own_rss_mib`.
    """

    wall_s: float
    cpu_s: float
    rss_mib: float
    output: str = ""


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float = 120,
    accepted: Collection[int] = (0,),
    open_stdin: bool = False,
) -> Sample:
    """Blocks until `argv` ends; its stdout is in the sample. Its stdin is empty, or with `open_stdin` a pipe
    on which nothing ever comes.

    Raises BenchError on a time-out and for an exit status that is not in `accepted`.
    """
    with scratch_file() as out, scratch_file() as err, _silence(open_stdin) as stdin:
        started = time.perf_counter()
        process = start(argv, env, cwd, out, err, stdin)
        watchdog = threading.Timer(timeout_s, process.kill)
        watchdog.daemon = True
        watchdog.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        watchdog.cancel()
        # Popen must not wait for the process a second time: its number may belong to another by then.
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accepted:
            raise BenchError(_failure(argv, process.returncode, wall_s >= timeout_s, text(err)))
        return Sample(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text(out))


def own_rss_mib() -> float:
    """Size of this process: a forked child starts with it on its record, so lower figures are not to be
    had.
    """
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    out: IO[bytes],
    err: IO[bytes],
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Does not wait. BenchError when the program cannot be started."""
    try:
        return subprocess.Popen(list(argv), env=dict(env), cwd=cwd, stdin=stdin, stdout=out, stderr=err)
    except OSError as error:
        raise BenchError(f"`{argv[0]}` did not start: {error}") from error


@contextmanager
def _silence(is_open: bool) -> Iterator[int]:
    """A standard input that has ended, or one that never does."""
    if not is_open:
        yield subprocess.DEVNULL
        return
    reader, writer = os.pipe()
    try:
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


def scratch_file() -> IO[bytes]:
    """Holds what a child says; gone when closed."""
    # Not a pipe: a daemon that keeps its starter's stdout open would hold its reader for ever.
    return os.fdopen(os.memfd_create("bench-output"), "w+b")


def text(file: IO[bytes]) -> str:
    """All that was written to `file`."""
    file.seek(0)
    return file.read().decode(errors="replace")


def _failure(argv: Sequence[str], code: int, timed_out: bool, stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    why = "took too long and was killed" if timed_out else f"ended with {code}"
    result = f": {lines[-1][:200]}" if lines else ""
    return f"`{' '.join(argv)[:200]}` {why}{result}"
