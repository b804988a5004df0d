"""A process of the agent's own beside the run: works while the agent watches, deaf to what the run is told.

Forked where the agent has no threads. It holds nothing of the agent's but one end of a pipe: when that ends,
the agent is done, or gone.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from typing import Callable, NoReturn, Optional

from gofer.core.sleep import pause
from gofer.node.watch import REQUESTS

_FORWARDED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class Child:
    """`work` is given the reading end of the pipe and says whether it did what it was for."""

    def __init__(self, work: Callable[[int], bool]) -> None:
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(reader, work)
        os.close(reader)

    def say(self, word: bytes) -> None:
        """A word into its pipe; nothing happens when it is gone. Safe in a handler of signals."""
        try:
            os.write(self._writer, word)
        except OSError:
            pass

    def finish(self, *, within_s: Optional[float] = None) -> bool:
        """Close the pipe and wait for its end: whether it did its work. With a time, it is killed then."""
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
            return False  # it died before, and was collected with the ranks


def _be_child(reader: int, work: Callable[[int], bool]) -> NoReturn:
    """Nothing may return into the agent's code."""
    status = 1
    try:
        from gofer.core.processes import close_all_but

        gc.enable()
        signal.set_wakeup_fd(-1)
        for number in (*REQUESTS, *_FORWARDED):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        close_all_but({0, 1, 2, reader})
        status = 0 if work(reader) else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)
