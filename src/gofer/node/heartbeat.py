"""Write the heartbeats of a node while its ranks run, and watch which processes the kernel has killed."""

from __future__ import annotations

import time

from gofer.node.events import EventLog
from gofer.node.out_of_memory import Kills

HEARTBEAT_S = 10.0
_FIRST_S = 2.0


class HeartbeatWriter:
    """Main thread only. `kills` are counted since the last heartbeat at which no rank had failed."""

    def __init__(self, event_log: EventLog, gpus: list[int] | None, *, is_alone: bool) -> None:
        self._event_log = event_log
        self._gpus = gpus or []
        self._due_at: float | None = None
        self.kills = Kills(is_alone=is_alone)

    def tick(self, pids: list[int], *, has_failed: bool) -> float:
        """Write a heartbeat if one is due; the seconds until the next.

        The first call writes nothing: most commands are short.
        """
        now = time.monotonic()
        if self._due_at is None:
            self._due_at = now + _FIRST_S
        elif now >= self._due_at:
            self._due_at = now + HEARTBEAT_S
            if not has_failed:
                # After a failure the mark stays, so that the kills since then can explain the failure.
                self.kills.mark()
            self._event_log.beat(self._gpus, pids)
        return self._due_at - now
