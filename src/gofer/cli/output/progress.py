"""Show the progress of a transfer on stderr: one updated line on a terminal, else a new line from time to
time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from gofer.cli.output.screen import columns_of, cut
from gofer.text import format_duration, format_size

if TYPE_CHECKING:
    from types import TracebackType

    from gofer.transfer import Numbers, TransferProgress

_DRAWN_EVERY_S = 0.1
_READ_EVERY_S = 0.5
_SAID_EVERY_S = 5.0
_BAR = 20


class Display:
    """A context: shows the numbers while it lasts, then clears a terminal's line. Nothing when `quiet`."""

    def __init__(
        self, progress: TransferProgress, *, quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self._progress = progress
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._draws = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="gofer-progress", daemon=True)

    def __enter__(self) -> Display:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _show(self) -> None:
        pause_s = _DRAWN_EVERY_S if self._draws else _READ_EVERY_S
        drawn, said = False, time.monotonic()
        while not self._over.wait(pause_s):
            # Counts are read more often than printed, since the rate is computed from recent readings.
            line = render(self._progress.read(), bar=self._draws)
            if line and self._draws:
                self._write(f"\r{cut(line, columns_of(self._stream) - 1)}\x1b[K")
                drawn = True
            elif line and time.monotonic() - said >= _SAID_EVERY_S:
                self._write(f"{line}\n")
                said = time.monotonic()
        if drawn:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # stderr is closed
            self._over.set()


def render(numbers: Numbers, *, bar: bool = False) -> str:
    """The progress as one line; empty while there is nothing to show."""
    if numbers.phase == "looking":
        return f"looking: {numbers.compared:,} files compared" if numbers.compared else ""
    if numbers.phase == "deleting":
        return "deleting"
    if numbers.phase != "moving" or not numbers.all_files:
        return ""
    parts = [
        f"{numbers.files:,} of {numbers.all_files:,} files",
        f"{format_size(numbers.bytes)} of {format_size(numbers.all_bytes)}",
        f"{format_size(round(numbers.bytes_per_s))}/s",
    ]
    if numbers.left_s is not None:
        parts.append(f"{format_duration(numbers.left_s)} left")
    if numbers.failed:
        parts.append(f"{numbers.failed:,} failed")
    return ("" if not bar else f"{_bar(numbers)} ") + ", ".join(parts)


def _bar(numbers: Numbers) -> str:
    done = numbers.bytes / numbers.all_bytes if numbers.all_bytes else numbers.files / numbers.all_files
    full = round(_BAR * min(max(done, 0.0), 1.0))
    return f"[{'#' * full}{'-' * (_BAR - full)}]"


def rate(size: int, elapsed_s: float) -> str:
    """`51.0 MiB/s`; empty when it was too short to tell."""
    return f"{format_size(round(size / elapsed_s))}/s" if elapsed_s > 0.001 and size else ""
