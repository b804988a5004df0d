"""Reach the supervisor of this machine's queue, or start one.

The supervisor holds the reading end of a FIFO. Writing to it wakes it; with no reader there is no supervisor.
It closes the FIFO before its last look at the queue, so whoever commits a request first and pokes afterwards
either wakes it or is told that nobody is there.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

from gofer.core import processes
from gofer.core.queue_home import WORK_DIR_VARIABLE

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from gofer.queue.program import main; main(sys.argv[1])"
)
_started: list[int] = []


def fifo(engine: str) -> str:
    return os.path.join(engine, "wake")


def poke(engine: str) -> bool:
    """Wake the supervisor; False when there is none."""
    try:
        fd = os.open(fifo(engine), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(fd, b"w")
    except BlockingIOError:
        pass  # so many wakes are waiting already that one more says nothing new
    except BrokenPipeError:
        return False
    finally:
        os.close(fd)
    return True


def ensure(engine: str) -> int | None:
    """Have a supervisor look at the queue soon. Returns at once; starting two leaves one.

    Inside a run nothing is started, since it would end with the run; the run's own agent sees to it that
    there is a supervisor. Returns the pid of the supervisor, if one was started.
    """
    if poke(engine) or "GOFER_RUN_ID" in os.environ:
        return None
    return spawn(engine)


def replace(engine: str) -> int | None:
    """Start a supervisor in place of the caller's own, which has just gone; its pid, if that could be done.

    Whether one listens is not asked: that which is going may seem to, for a moment. And the new one is none
    of the caller's descendants. An agent adopts what its run leaves behind and ends it: of a supervisor below
    it, it would adopt the agents when that one is killed, and end the runs of others with its own.
    """
    reading, writing = os.pipe()
    processes.adopt_orphans(False)
    try:
        between = os.fork()
        if between == 0:
            _be_between(engine, writing)
        os.waitpid(between, 0)
        os.set_blocking(reading, False)
        return int(os.read(reading, 32))
    except OSError:
        return None  # this machine starts nothing more; whoever comes next tries again
    finally:
        processes.adopt_orphans()
        os.close(reading)
        os.close(writing)


def _be_between(engine: str, writing: int) -> NoReturn:
    """Start the supervisor, say its pid, and end: then nobody of this family is its parent."""
    try:
        os.write(writing, str(spawn(engine)).encode())
    except BaseException:
        import traceback  # slow to load, and every submission loads this module

        traceback.print_exc()  # into supervisor.log, as all complaints of an agent
        sys.stderr.flush()
    os._exit(0)


def spawn(engine: str) -> int:
    """Start a supervisor that outlives the caller, its terminal and its session."""
    _collect()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    log = os.path.join(engine, "supervisor.log")
    null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _PROGRAM, root, engine],
        _environment(),
        file_actions=[null, (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)],
        setsid=True,
    )
    _started.append(pid)
    return pid


def _environment() -> dict[str, str]:
    """The caller's, for the loader's sake, without the marks by which a run's processes are found and
    ended.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOFER_")}
    wanted = os.environ.get(WORK_DIR_VARIABLE)
    return kept if wanted is None else {**kept, WORK_DIR_VARIABLE: wanted}


def _collect() -> None:
    """Reap supervisors that this process started and that have left since."""
    for pid in list(_started):
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            done = pid
        if done:
            _started.remove(pid)
