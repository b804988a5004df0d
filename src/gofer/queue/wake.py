"""Wake the supervisor of this machine's queue, or start one.

The supervisor holds the reading end of a FIFO. A write to the FIFO wakes the supervisor; without a reader
there is no supervisor. The supervisor closes the FIFO before it checks the queue for the last time. So a
caller that commits a request first and pokes afterwards either wakes the supervisor or learns that there is
none.
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


def fifo(queue_home: str) -> str:
    return os.path.join(queue_home, "wake")


def poke(queue_home: str) -> bool:
    """Wake the supervisor; False when there is none."""
    try:
        fd = os.open(fifo(queue_home), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(fd, b"w")
    except BlockingIOError:
        pass  # the FIFO is full, so the supervisor wakes anyway
    except BrokenPipeError:
        return False
    finally:
        os.close(fd)
    return True


def ensure(queue_home: str) -> int | None:
    """Make sure that a supervisor checks the queue soon. Does not wait. When two callers start one each, the
    second supervisor ends by itself.

    Inside a run nothing is started, since a supervisor would end with the run; the run's own agent makes sure
    that there is one. Returns the pid of the supervisor, if one was started.
    """
    if poke(queue_home) or "GOFER_RUN_ID" in os.environ:
        return None
    return spawn(queue_home)


def replace(queue_home: str) -> int | None:
    """Start a supervisor in place of the agent's own, which has just gone; its pid, or None when that failed.

    Always start a new supervisor: one that is shutting down can still look alive for a moment. The new
    supervisor is not a descendant of the agent. An agent adopts and ends the processes that its run leaves
    behind. If the new supervisor were a descendant and were killed, the agent would adopt the supervisor's
    agents, and end the runs of others together with its own.
    """
    reading, writing = os.pipe()
    processes.adopt_orphans(False)
    try:
        intermediate = os.fork()
        if intermediate == 0:
            _start_and_exit(queue_home, writing)
        os.waitpid(intermediate, 0)
        os.set_blocking(reading, False)
        return int(os.read(reading, 32))
    except OSError:
        return None  # the machine cannot start a process now; the next agent or command tries again
    finally:
        processes.adopt_orphans()
        os.close(reading)
        os.close(writing)


def _start_and_exit(queue_home: str, writing: int) -> NoReturn:
    """In the forked child: start the supervisor, write its pid to the pipe, and end. So the supervisor loses
    its parent and is no descendant of the agent.
    """
    try:
        os.write(writing, str(spawn(queue_home)).encode())
    except BaseException:
        import traceback  # slow to load, and every submission loads this module

        traceback.print_exc()  # into supervisor.log, like all errors of an agent
        sys.stderr.flush()
    os._exit(0)


def spawn(queue_home: str) -> int:
    """Start a supervisor that outlives the caller, its terminal and its session."""
    _collect()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    log = os.path.join(queue_home, "supervisor.log")
    null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _PROGRAM, root, queue_home],
        _environment(),
        file_actions=[null, (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)],
        setsid=True,
    )
    _started.append(pid)
    return pid


def _environment() -> dict[str, str]:
    """The caller's environment, since the program loader may need it, without the variables that mark the
    processes of a run: agents find and end processes by these.
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
