"""Sleep until the queue of this machine changes, instead of for a whole pause."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.ops.submission.send import is_here

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_LOOK_S = 0.15
_FILES = ("queue.db", "queue.db-wal")


class QueueChanges:
    """Detects changes of the queue's files since `mark` by their times, which takes microseconds.

    Nothing is checked for runs that are not in the queue of this machine.
    """

    def __init__(self, session: Session, rows: Iterable[RunRow]) -> None:
        backends = {row.backend for row in rows if is_here(session, row.submitter)}
        is_local = any(map(registry.runs_here, backends))
        self._paths = [session.paths.queue_home / name for name in _FILES] if is_local else []
        self.are_seen = is_local
        self.mark()

    def mark(self) -> None:
        """Changes from now on count. Call this before the queue is read."""
        self._seen = self._stamps()

    def sleep(self, longest_s: float, *, least_s: float) -> None:
        """Block for `least_s`, and then until there is a change or `longest_s` is over."""
        if not self._paths:
            time.sleep(longest_s)
            return
        end = time.monotonic() + longest_s
        time.sleep(min(least_s, longest_s))
        while (left_s := end - time.monotonic()) > 0 and self._stamps() == self._seen:
            time.sleep(min(_LOOK_S, left_s))

    def _stamps(self) -> list[int]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
