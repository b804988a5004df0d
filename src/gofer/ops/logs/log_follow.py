"""Follow one log of a run while it grows and over its attempts, until the run is over.

Uses the Store contract. The caller says what to follow and whether the run is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.log_lines import last_states
from gofer.errors import StoreError
from gofer.ops.logs.log_bytes import read_forward, read_tail
from gofer.ops.runs.run_folder import attempt_numbers

if TYPE_CHECKING:
    from gofer.storage.base import Store

SHORTEST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
_GROWTH = 1.5
# A laptop may sleep or change its network, so wait this long for a store that does not answer.
PATIENCE_S = 600.0


class Followed(NamedTuple):
    """What to follow, and functions that answer questions about the run.

    `locate(attempt, is_over)` is the key of the log of an attempt, or None while there is none. With
    `is_over`, no new log will appear, and it may return another one. `is_over(attempt)` is whether the run is
    over when this attempt is followed. With `attempt`, later attempts are not followed. `setup` shows the
    set-up of an attempt until the attempt has a log; None to hide it.
    """

    store: Store
    run_id: str
    locate: Callable[[int, bool], str | None]
    is_over: Callable[[int], bool]
    say: Callable[[str], None]
    attempt: int | None = None
    setup: SetupView | None = None


class SetupView(NamedTuple):
    """Shows set-up logs. `locate` is the key of an attempt's set-up log, None while there is none. `show`
    gets whole lines and whether they are the last.
    """

    locate: Callable[[int], str | None]
    show: Callable[[bytes, bool], None]


class Follower:
    """An iterator over the bytes of a growing log: each byte once, in order.

    Whether the run is over or has a newer attempt is checked *before* each read, so everything that was
    written before the end is read. Blocks between polls; stop iterating to stop following.
    """

    def __init__(self, followed: Followed, *, lines: int | None) -> None:
        self._followed = followed
        self._lines = lines
        self._key: str | None = None
        self._position = 0
        self._setup_key: str | None = None
        self._setup_position = 0
        self._attempt = followed.attempt
        self._failing_since: float | None = None

    def __iter__(self) -> Iterator[bytes]:
        pause = SHORTEST_PAUSE_S
        while True:
            grown = False
            try:
                over, newer = self._look()
                for piece in self._read(over or newer is not None):
                    grown = True
                    yield piece
                self._failing_since = None
            except StoreError as error:
                self._fail(error)
                over, newer = False, None
            if newer is not None:
                self._go_to(newer)
                continue
            if over:
                return
            pause = SHORTEST_PAUSE_S if grown else min(pause * _GROWTH, LONGEST_PAUSE_S)
            time.sleep(pause)

    def _look(self) -> tuple[bool, int | None]:
        """Whether nothing more will be written, and the next attempt to follow."""
        followed = self._followed
        over = followed.is_over(self._attempt or 1)
        attempts = attempt_numbers(followed.store, followed.run_id)
        if self._attempt is None and attempts:
            # With a number of lines, start at the newest attempt; without, show every attempt.
            self._attempt = attempts[-1] if self._lines is not None else attempts[0]
        later = [number for number in attempts if self._attempt is not None and number > self._attempt]
        if followed.attempt is not None:
            return over or bool(later), None
        return over, min(later, default=None)

    def _read(self, last: bool) -> Iterator[bytes]:
        """New bytes. `last`: the attempt is known to be over."""
        if self._key is None and self._attempt is not None:
            self._show_setup(self._attempt, last)
            yield from self._open(self._attempt, last)
        if self._key is not None:
            for piece in read_forward(self._followed.store, self._key, self._position):
                self._position += len(piece)
                yield piece

    def _open(self, attempt: int, last: bool) -> Iterator[bytes]:
        """Find the log of an attempt. The first log starts at its last lines, logs of later attempts at their
        beginning.
        """
        key = self._followed.locate(attempt, last)
        data = b""
        if key is not None and self._lines is not None:
            start, data = read_tail(self._followed.store, key, self._lines)
            self._position, self._lines = start + len(data), None
        elif key is not None and key == self._setup_key:
            self._position = self._setup_position  # the bytes before this position were already shown
        if key not in (None, self._setup_key):
            self._show_setup(attempt, True)  # show the rest of the set-up log before the log of the rank
        self._key = key
        if data:
            yield last_states(data)

    def _show_setup(self, attempt: int, last: bool) -> None:
        """Show new whole lines of the set-up log."""
        view = self._followed.setup
        if view is None:
            return
        self._setup_key = self._setup_key or view.locate(attempt)
        if self._setup_key is None:
            return
        new = b"".join(read_forward(self._followed.store, self._setup_key, self._setup_position))
        whole = new[: new.rfind(b"\n") + 1]
        if whole or last:
            self._setup_position += len(whole)
            view.show(whole, last)

    def _go_to(self, attempt: int) -> None:
        self._followed.say(f"attempt {self._attempt} is over; following attempt {attempt}")
        self._attempt, self._key, self._position, self._lines = attempt, None, 0, None
        self._setup_key, self._setup_position = None, 0

    def _fail(self, error: StoreError) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            self._followed.say(f"{error.message}; trying again")
        if now - self._failing_since > PATIENCE_S:
            raise error
