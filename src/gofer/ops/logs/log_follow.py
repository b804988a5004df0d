"""Follow one log of a run while it grows and over its attempts, until the run is over.

Speaks the Store contract and is told by its caller what to follow and whether the run is over.
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
# A store that is away for so long is not coming back by itself; a laptop may sleep, or change its network.
PATIENCE_S = 600.0


class Followed(NamedTuple):
    """What to follow, and whom to ask.

    `locate(attempt, is_over)` gives the key of the log in that attempt, or None while there is none; with
    `is_over`, nothing more will appear and it may settle for another log. `is_over(attempt)` says whether the
    run is over, when that attempt is the one followed. With `attempt`, later attempts are not followed.
    `setup` shows the set-up of an attempt as long as it has no log; None where nobody wants to see it.
    """

    store: Store
    run_id: str
    locate: Callable[[int, bool], str | None]
    is_over: Callable[[int], bool]
    say: Callable[[str], None]
    attempt: int | None = None
    setup: SetupView | None = None


class SetupView(NamedTuple):
    """`locate` gives the key of an attempt's set-up log, None while there is none. `show` gets whole lines of
    it, and whether they are the last.
    """

    locate: Callable[[int], str | None]
    show: Callable[[bytes, bool], None]


class Follower:
    """An iterator over the bytes of a growing log: each byte once, in order, none left out.

    Facts that end the reading (the run is over, there is a newer attempt) are taken *before* a read, so all
    that was written before them is read. Blocks between polls; stop iterating to stop following.
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
        """Whether nothing more will come, and the attempt to go to next."""
        followed = self._followed
        over = followed.is_over(self._attempt or 1)
        attempts = attempt_numbers(followed.store, followed.run_id)
        if self._attempt is None and attempts:
            # A first look starts at the newest; one that waited from the start sees every attempt.
            self._attempt = attempts[-1] if self._lines is not None else attempts[0]
        later = [number for number in attempts if self._attempt is not None and number > self._attempt]
        if followed.attempt is not None:
            return over or bool(later), None
        return over, min(later, default=None)

    def _read(self, last: bool) -> Iterator[bytes]:
        """What is new; `last` when the attempt is known to be over."""
        if self._key is None and self._attempt is not None:
            self._show_setup(self._attempt, last)
            yield from self._open(self._attempt, last)
        if self._key is not None:
            for piece in read_forward(self._followed.store, self._key, self._position):
                self._position += len(piece)
                yield piece

    def _open(self, attempt: int, last: bool) -> Iterator[bytes]:
        """Find the log; begin the first one at its last lines, those of later attempts at their start."""
        key = self._followed.locate(attempt, last)
        data = b""
        if key is not None and self._lines is not None:
            start, data = read_tail(self._followed.store, key, self._lines)
            self._position, self._lines = start + len(data), None
        elif key is not None and key == self._setup_key:
            self._position = self._setup_position  # the rest was shown
        if key not in (None, self._setup_key):
            self._show_setup(attempt, True)  # its last lines came before the log that is now there
        self._key = key
        if data:
            yield last_states(data)

    def _show_setup(self, attempt: int, last: bool) -> None:
        """What is new in the set-up log, in whole lines."""
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
