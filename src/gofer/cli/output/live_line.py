"""Show what a command waits for: one line in place on a terminal, else a new line from time to time.

On a terminal, the line also says what a command waits for that has printed nothing for two seconds, whichever
command that is (`gofer.transport.activity`). The line of a terminal is the last one on the screen. Everything
else that the process writes to a terminal clears the line first, by `covered`; a thread draws it again.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from gofer.cli.output.screen import columns_of, cut, printable
from gofer.cli.output.terminal_text import TerminalStream
from gofer.ops.messages import LiveStatus
from gofer.text import format_duration
from gofer.transport.activity import activities

_DRAWN_EVERY_S = 0.2
# A status that lasts shorter is not shown.
_SHOWN_AFTER_S = 0.3
# After this time of silence, the line says what the command waits for.
_SILENCE_S = 2.0
_PRINTED_AFTER_S = 1.5
# The pause between lines in a file: a new state is written at once, a new reason after a growing pause.
_REASON_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_FACTS_PAUSE_S = 60.0


class LiveLine:
    """The last line of a terminal, drawn by a thread. Any thread may call.

    An observer of activities: while there is no status, the line shows what has been waited for in silence.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = stream.fileno()
        self._lock = threading.RLock()
        self._status = LiveStatus()
        self._shown_from = 0.0
        self._is_retired = False
        self._written_at = time.monotonic()
        self._drawn = ""
        self._is_mid_line = False
        self._thread: threading.Thread | None = None

    def show(self, status: LiveStatus) -> None:
        """Replace the status; one without a run removes the line."""
        with self._lock:
            if status.run and not self._status.run:
                self._shown_from = time.monotonic() + _SHOWN_AFTER_S
            self._status = status
            if not status.run:
                self._clear()
            self._start()

    def retire(self) -> None:
        """Show nothing any longer: other programs may write to the terminal now."""
        with self._lock:
            self._clear()
            self._is_retired = True

    def activity_began(self) -> None:
        if self._thread is None:
            self._start()

    def activities_ended(self) -> None:
        with self._lock:
            if not self._status.run:
                self._clear()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._draw_for_ever, name="gofer-live", daemon=True)
                self._thread.start()

    @contextmanager
    def covered(self, *, ends_line: bool) -> Iterator[None]:
        """While other text is written: `ends_line` says whether that ends with a new line."""
        with self._lock:
            self._clear()
            self._is_mid_line = not ends_line
            self._written_at = time.monotonic()
            yield

    def _draw_for_ever(self) -> None:
        while True:
            time.sleep(_DRAWN_EVERY_S)
            with self._lock:
                # Text that ends in the middle of a line, such as a progress bar or a question, stays.
                text = "" if self._is_mid_line or self._is_retired else self._text(time.monotonic())
                if text:
                    self._draw(text)
                elif not self._status.run:
                    self._clear()

    def _text(self, now: float) -> str:
        """What the line shows at this time."""
        if self._status.run:
            return text_of(self._status) if now >= self._shown_from else ""
        current = activities.current()
        if current is None or now - max(current.since, self._written_at) < _SILENCE_S:
            return ""
        return f"{current.words}, {format_duration(now - current.since, tenths=False)}"

    def _draw(self, text: str) -> None:
        line = cut(printable(text), columns_of(self._stream) - 1)
        if line != self._drawn:
            self._write(f"\r{line}\x1b[K")
            self._drawn = line

    def _clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = ""

    def _write(self, text: str) -> None:
        # Not through the stream, whose lock a thread must not hold when the process ends.
        with suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "replace"))


class SparseLines:
    """Statuses as lines of a file or pipe: a new state at once, a new reason at least 30 s after another."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen = LiveStatus()
        self._seen_at = 0.0
        self._printed = LiveStatus()
        self._printed_at = 0.0
        self._reasons = 0

    def show(self, status: LiveStatus) -> None:
        now = time.monotonic()
        if (status.run, status.state, status.reason) != (self._seen.run, self._seen.state, self._seen.reason):
            self._seen_at = now
        self._seen = status
        if status.run and now - self._seen_at >= _PRINTED_AFTER_S and self._is_due(now):
            self._printed, self._printed_at = status, now
            with suppress(OSError, ValueError):
                self._stream.write(printable(text_of(status)) + "\n")
                self._stream.flush()

    def _is_due(self, now: float) -> bool:
        last, status = self._printed, self._seen
        if (last.run, last.state) != (status.run, status.state) and "/" not in status.state:
            self._reasons = 0
            return True
        if last.reason != status.reason:
            pause_s = _REASON_PAUSES_S[min(self._reasons, len(_REASON_PAUSES_S) - 1)]
            if now - self._printed_at >= pause_s:
                self._reasons += 1
                return True
            return False
        return str(last) != str(status) and now - self._printed_at >= _FACTS_PAUSE_S


def text_of(status: LiveStatus) -> str:
    """The status as one line, with the time since its start."""
    passed_s = None if status.since is None else max(time.time() - status.since, 0.0)
    return status.line("" if passed_s is None else format_duration(passed_s, tenths=False))


def status_view() -> LiveLine | SparseLines:
    """Where this process shows statuses: the same object for every call."""
    if not _view:
        _view.append(live_line() or SparseLines(sys.stderr))
    return _view[0]


def live_line() -> LiveLine | None:
    """The last line of the terminal, the same for every call; None where stderr is not such a terminal."""
    is_live = isinstance(sys.stderr, TerminalStream) and os.environ.get("TERM") != "dumb"
    if is_live and TerminalStream.live is None:
        TerminalStream.live = LiveLine(sys.stderr)
    return TerminalStream.live


_view: list[LiveLine | SparseLines] = []
