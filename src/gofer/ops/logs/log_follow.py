"""Follow one log of a run while it grows and over its attempts, until the run is over.

The caller says what to follow and whether the run is over: see `Followed`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gofer.core.log_lines import last_states
from gofer.errors import BackendError, CredentialError, GoferError, StoreError
from gofer.ops.logs.log_bytes import LogBytes, read_forward, read_tail
from gofer.ops.messages import AnyMessage, Hint, Message
from gofer.transport.ssh_errors import LoginNeeded

_GROWTH = 1.5


class FollowPatience(NamedTuple):
    """The pauses between polls, and which errors are waited out, for how long. `words` follow the message of
    such an error.
    """

    shortest_s: float
    longest_s: float
    limit_s: float
    errors: tuple[type[GoferError], ...]
    words: str


# A laptop may sleep or change its network, so wait this long for a store that does not answer.
STORE = FollowPatience(0.05, 1.0, 600.0, (StoreError,), "trying again")
SERVICE = FollowPatience(2.0, 60.0, math.inf, (BackendError, StoreError, CredentialError), "still following")


class OutageNotice:
    """Says that something cannot be reached: once, until the message changes or the connection is back."""

    def __init__(self, emit: Callable[[AnyMessage], None], words: str) -> None:
        self._emit = emit
        self._words = words
        self._said = ""
        self._has_failed = False

    def report(self, error: GoferError) -> None:
        self._has_failed = True
        if error.message != self._said:
            self._emit(Message(f"{error.message}; {self._words}"))
            if isinstance(error.__cause__, LoginNeeded) and error.hint:
                self._emit(Hint(error.hint))  # following continues after the login
        self._said = error.message

    def end_round(self) -> None:
        """Forget the outage if nothing was reported since the last call."""
        if not self._has_failed:
            self._said = ""
        self._has_failed = False


class Followed(NamedTuple):
    """What to follow, and functions that answer questions about the run.

    `attempts()` are the numbers of the attempts so far. `locate(attempt, is_over)` is the log of an attempt,
    or None while there is none. With `is_over`, no new log will appear, and it may return another one.
    `is_over(attempt)` is whether the run is over when this attempt is followed. With `attempt`, later
    attempts are not followed. `setup` shows the set-up of an attempt until the attempt has a log; None to
    hide it. `is_fixed`: the log stays the one that was located first. `begin_at` is the offset at which a log
    begins to be shown; None for the beginning.
    """

    attempts: Callable[[], Sequence[int]]
    locate: Callable[[int, bool], LogBytes | None]
    is_over: Callable[[int], bool]
    emit: Callable[[AnyMessage], None]
    attempt: int | None = None
    setup: SetupView | None = None
    patience: FollowPatience = STORE
    is_fixed: bool = True
    notice: OutageNotice | None = None
    begin_at: Callable[[LogBytes], int] | None = None


class SetupView(NamedTuple):
    """Shows set-up logs. `locate` is an attempt's set-up log, None while there is none. `show` gets whole
    lines and whether they are the last.
    """

    locate: Callable[[int], LogBytes | None]
    show: Callable[[bytes, bool], None]


class SetupReader:
    """Shows the lines of set-up logs, each once. `log` is the one that is shown, and `position` how far."""

    def __init__(self, view: SetupView) -> None:
        self._view = view
        self._attempt = 0
        self.log: LogBytes | None = None
        self.position = 0

    def show_new(self, attempt: int, is_last: bool) -> None:
        """Show new whole lines of this attempt; with `is_last`, also the rest."""
        if attempt != self._attempt:
            self._attempt, self.log, self.position = attempt, None, 0
        self.log = self.log or self._view.locate(attempt)
        if self.log is None:
            return
        new = b"".join(read_forward(self.log, self.position))
        lines = new[: new.rfind(b"\n") + 1]
        if lines or is_last:
            self.position += len(lines)
            self._view.show(lines, is_last)


class Follower:
    """An iterator over the bytes of a growing log: each byte once, in order.

    Whether the run is over or has a newer attempt is checked *before* each read, so everything that was
    written before the end is read. Blocks between polls; stop iterating to stop following.
    """

    def __init__(self, followed: Followed, *, lines: int | None) -> None:
        self._followed = followed
        self._patience = followed.patience
        self._notice = followed.notice or OutageNotice(followed.emit, followed.patience.words)
        self._lines = lines
        self._log: LogBytes | None = None
        self._position = 0
        self._setup = None if followed.setup is None else SetupReader(followed.setup)
        self._attempt = followed.attempt
        self.is_finished = False
        self._failing_since: float | None = None

    def __iter__(self) -> Iterator[bytes]:
        pause = self._patience.shortest_s
        while True:
            has_grown = False
            for piece in self.step():
                has_grown = True
                yield piece
            if self.is_finished:
                return
            pause = self._patience.shortest_s if has_grown else pause
            time.sleep(pause)
            pause = min(pause * _GROWTH, self._patience.longest_s)

    def step(self) -> Iterator[bytes]:
        """What is new now, without a pause; `is_finished` when nothing more will come. An error that is
        waited out is only reported.
        """
        newer: int | None = 0
        while newer is not None:
            try:
                over, newer = self._check()
                yield from self._read(over or newer is not None)
                self._failing_since = None
                self._notice.end_round()
            except self._patience.errors as error:
                self._fail(error)
                return
            if newer is not None:
                self._go_to(newer)
        self.is_finished = over

    @property
    def attempt(self) -> int | None:
        """The attempt whose log is followed now; None before there is one."""
        return self._attempt

    def skip_no_later_lines(self) -> None:
        """Show a log that did not exist at the last step from its beginning, not only its last lines."""
        if self._failing_since is None:
            self._lines = None

    def _check(self) -> tuple[bool, int | None]:
        """Whether nothing more will be written, and the next attempt to follow."""
        followed = self._followed
        over = followed.is_over(self._attempt or 1)
        attempts = followed.attempts()
        if self._attempt is None and attempts:
            # With a number of lines, start at the newest attempt; without, show every attempt.
            self._attempt = attempts[-1] if self._lines is not None else attempts[0]
        later = [number for number in attempts if self._attempt is not None and number > self._attempt]
        if followed.attempt is not None:
            return over or bool(later), None
        return over, min(later, default=None)

    def _read(self, last: bool) -> Iterator[bytes]:
        """New bytes. `last`: the attempt is known to be over."""
        if self._log is None and self._attempt is not None:
            if self._setup is not None:
                self._setup.show_new(self._attempt, last)
            yield from self._open(self._attempt, last)
        elif self._attempt is not None and not self._followed.is_fixed:
            self._log = self._followed.locate(self._attempt, last) or self._log
        if self._log is not None:
            for piece in read_forward(self._log, self._position):
                self._position += len(piece)
                yield piece

    def _open(self, attempt: int, last: bool) -> Iterator[bytes]:
        """Find the log of an attempt. The first log starts at its last lines, logs of later attempts at their
        beginning.
        """
        log, setup = self._followed.locate(attempt, last), self._setup
        data = b""
        if log is not None and self._lines is not None:
            start, data = read_tail(log, self._lines)
            self._position, self._lines = start + len(data), None
        elif log is not None and setup is not None and log == setup.log:
            self._position = setup.position  # the bytes before this position were already shown
        elif log is not None and self._followed.begin_at is not None:
            self._position = self._followed.begin_at(log)
        if log is not None and setup is not None and log != setup.log:
            setup.show_new(attempt, True)  # show the rest of the set-up log before the log of the rank
        self._log = log
        if data:
            yield last_states(data)

    def _go_to(self, attempt: int) -> None:
        self._followed.emit(Message(f"attempt {self._attempt} is over; following attempt {attempt}"))
        self._attempt, self._log, self._position, self._lines = attempt, None, 0, None

    def _fail(self, error: GoferError) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._notice.report(error)
        if now - self._failing_since > self._patience.limit_s:
            raise error
