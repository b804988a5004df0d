"""Lines on stderr about steps that take long: what is made, how far it is, how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Where stderr is a file, a line for each change would fill it.
_FILE_INTERVAL_S = 30.0


class Step:
    """One step that runs."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = self._shown = time.monotonic()

    @property
    def seconds(self) -> int:
        return int(time.monotonic() - self._began)

    def report(self, progress: str) -> None:
        """Show how far the step is: at once on a terminal, now and then in a file."""
        if sys.stderr.isatty():
            self._write(f"\r  {self._what} ... {progress}\033[K")
        elif time.monotonic() - self._shown > _FILE_INTERVAL_S:
            self._shown = time.monotonic()
            self._write(f"{progress} ({self.seconds} s) ... ")

    def begin(self) -> None:
        self._write(f"  {self._what} ... ")

    def end(self, word: str) -> None:
        start = f"\r  {self._what} ... " if sys.stderr.isatty() else ""
        self._write(f"{start}{word}\033[K\n" if start else f"{word}\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def step(what: str) -> Iterator[Step]:
    """Show that `what` is done, with its seconds, or that it failed."""
    shown = Step(what)
    shown.begin()
    try:
        yield shown
    except BaseException:
        shown.end("failed")
        raise
    shown.end(f"done ({shown.seconds} s)")
