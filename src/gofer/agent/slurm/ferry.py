"""Carries what a node writes to an object store: a child of the agent that ignores what the run is told."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
import traceback
from typing import Any, Mapping, NoReturn, Sequence

from gofer.agent.watch import REQUESTS

LOOK_S = 2.0
# A store that is away comes back; one that refuses what the run was given will not change its mind.
PATIENCE_S = 600.0
REFUSED_PATIENCE_S = 20.0
_REFUSALS = (401, 403, 404)
_FORWARDED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class Ferry:
    """Made before the first rank is started; where the agent has no threads."""

    def __init__(self, spool: str, spec: Mapping[str, Any], run_id: str, sync: Sequence[str]) -> None:
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._writer)
            _be_ferry(reader, spool, spec, run_id, sync)
        os.close(reader)

    def finish(self) -> bool:
        """Bring everything over and wait for it; False when the store did not take it."""
        try:
            os.write(self._writer, b"f")
            os.close(self._writer)
        except BrokenPipeError:
            pass
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            return False
        return status == 0


def _be_ferry(reader: int, spool: str, spec: Mapping[str, Any], run_id: str, sync: Sequence[str]) -> NoReturn:
    status = 1
    try:
        gc.enable()
        signal.set_wakeup_fd(-1)
        for number in (*REQUESTS, *_FORWARDED):
            signal.signal(number, signal.SIG_IGN)
        status = 0 if _carry(reader, spool, spec, run_id, sync) else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def _carry(reader: int, spool: str, spec: Mapping[str, Any], run_id: str, sync: Sequence[str]) -> bool:
    """Until the agent says that all is written, or is gone; whether everything is in the store then."""
    from gofer.agent.objects import open_objects
    from gofer.agent.objects.facts import ObjectsError
    from gofer.agent.outbox import Outbox

    outbox = Outbox(spool, open_objects(spec), sync=sync)
    while not select.select([reader], [], [], LOOK_S)[0]:
        try:
            outbox.look(run_id)
        except (ObjectsError, OSError) as error:
            _complain(run_id, error)
    deadline: float | None = None
    while True:
        try:
            outbox.finish(run_id)
            return True
        except (ObjectsError, OSError) as error:
            _complain(run_id, error)
            refused = isinstance(error, ObjectsError) and error.status in _REFUSALS
            patience_s = REFUSED_PATIENCE_S if refused else PATIENCE_S
            deadline = deadline or time.monotonic() + patience_s
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)


def _complain(run_id: str, error: Exception) -> None:
    print(f"gofer: the store did not take the files of {run_id}: {error}", file=sys.stderr, flush=True)
