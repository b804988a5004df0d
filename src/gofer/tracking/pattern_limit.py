"""A limit on the time that a person's regular expression may take: some never end, such as `(a+)+$`."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gofer.errors import UsageError

LIMIT_S = 5.0


class _TimeIsUp(Exception):
    """Raised by the alarm inside the search, where sqlite3 turns it into an error of its own."""


@contextmanager
def limited(limit_s: float = LIMIT_S) -> Iterator[None]:
    """UsageError when the block takes longer.

    Python's `re` can be interrupted by a signal alone, and only the main thread receives signals: in another
    thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    rang = []

    def ring(number: int, frame: FrameType | None) -> None:
        rang.append(number)
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    except (_TimeIsUp, sqlite3.Error):
        if not rang:
            raise
        raise UsageError(
            f"the regular expression of a `~` filter took more than {limit_s:g} s",
            hint="a repetition inside a repetition, such as `(a+)+`, may never end: write it with one",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
