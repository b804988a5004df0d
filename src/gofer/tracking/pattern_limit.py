"""Limits the time of a user's regular expression: some, such as `(a+)+$`, practically never end.

Python's `re` can be interrupted only by a signal, and only the main thread receives signals. So other threads
search in a process of their own, which can be killed.
"""

from __future__ import annotations

import json
import re
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gofer.errors import UsageError

LIMIT_S = 5.0

Search = Callable[[str, str], bool]

_PROGRAM = """
import json, re, sys
for line in sys.stdin:
    pattern, text = json.loads(line)
    print(int(re.search(pattern, text) is not None), flush=True)
"""


class _TimeIsUp(Exception):
    """Raised in the midst of a search, where sqlite3 turns it into an error of its own."""


@contextmanager
def limited_search(limit_s: float = LIMIT_S) -> Iterator[Search]:
    """A function that says whether a pattern matches somewhere in a text, for use in the block.

    UsageError when the block takes longer than `limit_s`; in another than the main thread, only the searches
    are stopped.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    limit = _Alarm(limit_s) if in_main_thread else _SearchProcess(limit_s)
    try:
        yield limit.search
    except (_TimeIsUp, sqlite3.Error):
        if not limit.is_over:
            raise
        raise UsageError(
            f"the regular expression of a `~` filter took more than {limit_s:g} s",
            hint="a repetition inside a repetition, for example `(a+)+`, may never end: use a single one",
        ) from None
    finally:
        limit.close()


class _Alarm:
    """Searches in this process, until a signal interrupts it. Main thread only."""

    def __init__(self, limit_s: float) -> None:
        self.is_over = False
        self._before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, limit_s)

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        self.is_over = True
        raise _TimeIsUp

    def search(self, pattern: str, text: str) -> bool:
        return re.search(pattern, text) is not None

    def close(self) -> None:
        # The timer first: an alarm after the old handler is back could end the program.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


class _SearchProcess:
    """Searches in a child process. The process starts with the first search, and is killed by `close`."""

    def __init__(self, limit_s: float) -> None:
        self.is_over = False
        self._until = time.monotonic() + limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def search(self, pattern: str, text: str) -> bool:
        if self._process is None:
            argv = [sys.executable, "-I", "-S", "-c", _PROGRAM]
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([pattern, text]).encode() + b"\n")
        left_s = max(0.0, self._until - time.monotonic())
        if not select.select([self._process.stdout], [], [], left_s)[0]:
            self.is_over = True
            raise _TimeIsUp
        return self._process.stdout.read(2) == b"1\n"

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
