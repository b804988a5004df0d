"""Carries what a node writes to an object store: a child of the agent that ignores what the run is told."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from gofer.agent.child import Child
from gofer.agent.pausing import pause

if TYPE_CHECKING:
    from gofer.agent.outbox import Outbox

LOOK_S = 2.0
# A store that is away comes back; one that refuses what the run was given will not change its mind.
PATIENCE_S = 600.0
REFUSED_PATIENCE_S = 20.0
REFUSALS = (401, 403, 404)
_HURRY = b"h"


class Ferry:
    """Made before the first rank is started; where the agent has no threads."""

    def __init__(self, spool: str, spec: Mapping[str, Any], run_id: str, sync: Sequence[str]) -> None:
        self._child = Child(lambda reader: _carry(reader, spool, spec, run_id, sync))
        self.pid = self._child.pid

    def hurry(self) -> None:
        """Have it look now: little time may be left. Returns at once; safe in a handler of signals."""
        self._child.say(_HURRY)

    def finish(self) -> bool:
        """Bring everything over and wait for it; False when the store did not take it."""
        return self._child.finish()


def _carry(reader: int, spool: str, spec: Mapping[str, Any], run_id: str, sync: Sequence[str]) -> bool:
    """Until the agent says that all is written, or is gone; whether everything is in the store then."""
    from gofer.agent.objects import open_objects
    from gofer.agent.objects.facts import ObjectsError
    from gofer.agent.outbox import Outbox

    outbox = Outbox(spool, open_objects(spec), sync=sync)
    is_hurried = False

    def look() -> None:
        try:
            outbox.look(run_id)
        except (ObjectsError, OSError) as error:
            _complain(run_id, error)

    while True:
        if select.select([reader], [], [], LOOK_S)[0]:
            if not os.read(reader, 64):
                break
            is_hurried = True
        look()
    if is_hurried:  # the few words that matter most go before what may be large
        look()
    return _finish(outbox, run_id)


def _finish(outbox: Outbox, run_id: str) -> bool:
    from gofer.agent.objects.facts import ObjectsError

    deadline: float | None = None
    while True:
        try:
            outbox.finish(run_id)
            return True
        except (ObjectsError, OSError) as error:
            _complain(run_id, error)
            refused = isinstance(error, ObjectsError) and error.status in REFUSALS
            patience_s = REFUSED_PATIENCE_S if refused else PATIENCE_S
            deadline = deadline or time.monotonic() + patience_s
            if time.monotonic() > deadline:
                return False
            pause(LOOK_S)


def _complain(run_id: str, error: Exception) -> None:
    print(f"gofer: the store did not take the files of {run_id}: {error}", file=sys.stderr, flush=True)
