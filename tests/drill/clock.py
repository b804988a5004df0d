"""A clock that is set back an hour, and forward again, while runs wait, run and are tried again.

Debian's libfaketime is put before the C library in every gofer process; the monotonic clock is left alone, as
the kernel leaves it when somebody sets the time.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drill import evidence
from drill.home import Home
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.course import Course

_LIBRARY = "/usr/lib/*/faketime/libfaketime.so.1"
# Retries wait one and two seconds; an hour would show.
_LONGEST_S = 60.0


def find_library() -> str | None:
    """None where faketime is not installed."""
    return next(iter(glob.glob(_LIBRARY)), None)


class Clock:
    """The offset of all gofer processes of a home from the true time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "clock"
        self.set("+0")

    def set(self, offset: str) -> None:
        self._file.write_text(offset + "\n")

    def variables(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": find_library() or "",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


def clock(course: Course, kills: int) -> Iterator[Round]:
    """No elapsed time is negative, no retry waits for the hour to pass, every state is true."""
    del kills
    if find_library() is None:
        course.say("  left out: faketime is not installed")
        return
    place = course.place()
    hands = Clock(place)
    game = course.begin("clock", Home(place, extra=hands.variables()))
    # Now and then the library fails in a process that inherits the semaphore of one that is gone. Commands
    # are many and have no need of it.
    game.home.submit_options = ("--env", "LD_PRELOAD=")
    _use(game, hands, brief=course.brief)
    yield game


def _use(game: Round, hands: Clock, *, brief: bool) -> None:
    began = time.monotonic()
    offsets = ("+86400", "-3600") if brief else ("+86400", "-3600", "+0", "-3600")
    for number, offset in enumerate(offsets, start=1):
        for kind, end in enumerate(("0", "7", "once:3", "SIGTERM")):
            game.submit(Spec(10 * number + kind, nap="0.3", end=end, retries=kind % 3))
        game.submit(Spec(10 * number + 9, nap="0.05", rows=5))
        hands.set(offset)
        _check_listing(game)
    game.settle()
    times = sorted(str(one["submitted_at"]) for one in evidence.ask(game.home).plain.values())
    if times[0][:13] == times[-1][:13]:
        game.violate(f"the clock was not set: all was submitted between {times[0]} and {times[-1]}")
    if time.monotonic() - began > _LONGEST_S:
        game.violate(f"took {time.monotonic() - began:.0f} s: something waited for the clock")


def _check_listing(game: Round) -> None:
    answer = game.home.run("list", "runs", "--columns", "id,age,elapsed")
    if answer.returncode != 0 or " -" in answer.stdout:
        game.violate(f"`gofer list runs` after the clock was set: {answer.stdout} {answer.stderr}")
