"""A helper process of the agent: works beside the run, and ignores signals that are meant for the run.

The agent must have no threads when it forks the helper. The helper inherits one end of a pipe and nothing
else. When the pipe is closed, the agent is done or gone.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from typing import Callable, NoReturn, Optional, Sequence

from gofer.core.processes import close_all_but
from gofer.core.sleep import pause
from gofer.node.watch import REQUESTS

_FORWARDED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class HelperProcess:
    """Runs `work` in a child process. `work` gets the reading end of the pipe, and returns whether it
    succeeded. The descriptors `kept` stay open in the child.
    """

    def __init__(self, work: Callable[[int], bool], *, kept: Sequence[int] = ()) -> None:
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(reader, work, kept)
        os.close(reader)

    def send(self, word: bytes) -> None:
        """Write into the child's pipe. Does nothing when the child is gone. Safe in a signal handler."""
        try:
            os.write(self._writer, word)
        except OSError:
            pass

    def finish(self, *, within_s: Optional[float] = None) -> bool:
        """Close the pipe and wait for the child; whether its work succeeded. After `within_s` the child is
        killed.
        """
        os.close(self._writer)
        deadline = None if within_s is None else time.monotonic() + within_s
        try:
            while deadline is not None and time.monotonic() < deadline:
                done, status = os.waitpid(self.pid, os.WNOHANG)
                if done:
                    return status == 0
                pause(0.01)
            if deadline is not None:
                os.kill(self.pid, signal.SIGKILL)
            return os.waitpid(self.pid, 0)[1] == 0
        except (ChildProcessError, ProcessLookupError):
            return False  # the child died earlier and was reaped together with the ranks


def _be_child(reader: int, work: Callable[[int], bool], kept: Sequence[int]) -> NoReturn:
    """In the forked child. Nothing may return into the agent's code."""
    status = 1
    try:
        gc.enable()
        signal.set_wakeup_fd(-1)
        for number in (*REQUESTS, *_FORWARDED):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        close_all_but({0, 1, 2, reader, *kept})
        status = 0 if work(reader) else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)
