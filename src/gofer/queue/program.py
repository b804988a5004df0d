"""The supervisor as a program: one per queue. It ignores signals of the terminal and logs to
supervisor.log.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
import time
import traceback
from typing import NoReturn

from gofer.core import processes
from gofer.core.command.process_limits import widen_affinity
from gofer.core.queue_home import make_folder
from gofer.core.sleep import pause
from gofer.node import cgroups
from gofer.queue import wake
from gofer.queue.agent import CGROUP_PREFIX
from gofer.queue.database import DAMAGE, Replaced
from gofer.queue.supervisor import Supervisor

_TAKEOVER_S = 10.0


def main(queue_home: str) -> NoReturn:
    """Supervise the queue in the folder `queue_home`, or end at once when another supervisor does."""
    status = 0
    try:
        for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(sig, signal.SIG_IGN)
        os.chdir("/")
        widen_affinity()  # the shell that started this program may be pinned to a few CPUs
        # The agent that started this supervisor ends every process of its cgroup.
        cgroups.leave(CGROUP_PREFIX)
        if _become_only(queue_home):
            processes.adopt_orphans()  # of agents that are killed
            gc.freeze()
            _supervise(queue_home)
    except BaseException:  # nobody waits for this process, so its error goes into its log
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


def _supervise(queue_home: str) -> None:
    supervisor = Supervisor(queue_home)
    try:
        supervisor.run()
    except Replaced:
        # A new supervisor process works off the new file. It finds the agents that are at work by their run
        # folders, and expects them not to be its own children.
        supervisor.close()
        wake.spawn(queue_home)
    except DAMAGE as error:
        if not supervisor.queue.file.set_aside_if(error):
            raise


def _become_only(queue_home: str) -> bool:
    """Take the supervisor's lock until the process ends; False when another supervisor holds it and
    listens.
    """
    make_folder(queue_home)
    fd = os.open(os.path.join(queue_home, "supervisor.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _TAKEOVER_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The holder may be about to end: it no longer listens, and it may not see a run that was just
            # added. So wait for the lock as long as nobody listens. This is not core.retry,
            # because each failure needs a look at who listens.
            if wake.poke(queue_home) or time.monotonic() > deadline:
                return False
            pause(0.02)
            continue
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        return True
