"""The supervisor as a program: one per queue, deaf to the terminal, its complaints in supervisor.log."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sqlite3
import sys
import time
import traceback
from typing import NoReturn

from gofer.core import processes
from gofer.core.process_limits import widen_affinity
from gofer.core.queue_home import make_folder
from gofer.core.sleep import pause
from gofer.node import cgroups
from gofer.queue import wake
from gofer.queue.agent import CGROUP_PREFIX
from gofer.queue.database_file import Replaced
from gofer.queue.supervisor import Supervisor

_TAKEOVER_S = 10.0


def main(engine: str) -> NoReturn:
    """Supervise the queue in the folder `engine`, or leave at once when another supervisor does."""
    status = 0
    try:
        for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(sig, signal.SIG_IGN)
        os.chdir("/")
        widen_affinity()  # the queue is that of the machine, whichever shell started it
        cgroups.leave(CGROUP_PREFIX)  # an agent that started this one ends whatever stays in its group
        if _become_only(engine):
            processes.adopt_orphans()  # of agents that are killed
            gc.freeze()
            _supervise(engine)
    except BaseException:  # the last words of a detached process go into its log
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


def _supervise(engine: str) -> None:
    supervisor = Supervisor(engine)
    try:
        supervisor.run()
    except Replaced:
        # A new process for the new file: agents at work are then nobody's children, as it expects them to be,
        # and are found by what they wrote in their folders.
        supervisor.close()
        wake.spawn(engine)
    except sqlite3.DatabaseError as error:
        if not supervisor.queue.file.set_aside_if(error):
            raise


def _become_only(engine: str) -> bool:
    """Hold the supervisor's lock for life; False when another supervisor is there and listening."""
    make_folder(engine)
    fd = os.open(os.path.join(engine, "supervisor.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _TAKEOVER_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The holder may be on its way out: it listens no more, and its last look at the queue may miss
            # us.
            if wake.poke(engine) or time.monotonic() > deadline:
                return False
            pause(0.02)
            continue
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        return True
