"""The signs of life of a node while its ranks run, and what the kernel has killed since the last one."""

from __future__ import annotations

import time
from typing import List, Optional

from gofer.node.events import Diary
from gofer.node.out_of_memory import Kills

HEARTBEAT_S = 10.0
_FIRST_S = 2.0


class HeartbeatWriter:
    """Main thread only. `kills` are those since the last sign of life at which nothing had failed yet."""

    def __init__(self, diary: Diary, gpus: Optional[List[int]], *, is_alone: bool) -> None:
        self._diary = diary
        self._gpus = gpus or []
        self._due_at: Optional[float] = None
        self.kills = Kills(is_alone=is_alone)

    def tick(self, pids: List[int], *, has_failed: bool) -> float:
        """Write a sign of life if it is time; seconds until the next one.

        The first call writes nothing: most commands are short.
        """
        now = time.monotonic()
        if self._due_at is None:
            self._due_at = now + _FIRST_S
        elif now >= self._due_at:
            self._due_at = now + HEARTBEAT_S
            if not has_failed:
                # After a failure the mark stays: what came since explains the failure.
                self.kills.mark()
            self._diary.beat(self._gpus, pids)
        return self._due_at - now

    def close(self) -> None:
        self.kills.close()
