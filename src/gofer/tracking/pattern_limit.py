"""Limits the time of a user's regular expression: some, such as `(a+)+$`, practically never end."""

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
    """Raised by the alarm during a search, where sqlite3 turns it into an error of its own."""


@contextmanager
def limited(limit_s: float = LIMIT_S) -> Iterator[None]:
    """UsageError when the block takes longer than `limit_s`.

    Only a signal can interrupt Python's `re`, and only the main thread receives signals. In other threads
    there is no limit.
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
            hint="a repetition inside a repetition, such as `(a+)+`, may take for ever: use a single one",
        ) from None
    finally:
        # The timer first: an alarm after the old handler is back could end the program.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
