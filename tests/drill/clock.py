"""A clock that is set ahead, back, and back by an hour, while runs wait, run and are tried again.

A small library is put before the C library in every gofer process; see clock.c for why it is our own.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drill import evidence
from drill.home import Home
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_COMPILERS = ("cc", "gcc", "clang", "tcc")
# Retries wait one and two seconds; an hour would show.
_LONGEST_S = 900.0


def find_compiler() -> str | None:
    return next((path for name in _COMPILERS if (path := shutil.which(name))), None)


class Clock:
    """The offset of all gofer processes of a home from the true time, in seconds with a sign."""

    def __init__(self, folder: Path, compiler: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "clock"
        self._library = folder / "clock.so"
        source = Path(__file__).with_name("clock.c")
        flags = ["-shared", "-fPIC", "-nostdlib", "-o", str(self._library), str(source)]
        subprocess.run([compiler, *flags], check=True, timeout=60)
        self.set("+0")

    def set(self, offset: str) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(offset)
        fresh.replace(self._file)

    def variables(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "DRILL_CLOCK": str(self._file)}


def clock(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """No elapsed time is negative, no retry waits for the hour to pass, every state is true."""
    del kills
    compiler = find_compiler()
    if compiler is None:
        runner.say(f"  left out: none of {', '.join(_COMPILERS)} is installed")
        return
    place = runner.place()
    hands = Clock(place, compiler)
    drill_round = runner.begin("clock", Home(place, extra=hands.variables()))
    _use(drill_round, hands, brief=runner.brief)
    yield drill_round


def _use(drill_round: Round, hands: Clock, *, brief: bool) -> None:
    began = time.monotonic()
    offsets = ("+86400", "-3600") if brief else ("+86400", "-3600", "+0", "-3600")
    for number, offset in enumerate(offsets, start=1):
        for kind, end in enumerate(("0", "7", "once:3", "SIGTERM")):
            drill_round.submit(Spec(10 * number + kind, nap="0.3", end=end, retries=kind % 3))
        drill_round.submit(Spec(10 * number + 9, nap="0.05", rows=5))
        hands.set(offset)
        _check_listing(drill_round)
    drill_round.settle()
    times = sorted(str(one["submitted_at"]) for one in evidence.ask(drill_round.home).plain.values())
    if times[0][:13] == times[-1][:13]:
        drill_round.violate(f"the clock was not set: all was submitted between {times[0]} and {times[-1]}")
    if time.monotonic() - began > _LONGEST_S:
        drill_round.violate(f"took {time.monotonic() - began:.0f} s: something waited for the clock")


def _check_listing(drill_round: Round) -> None:
    answer = drill_round.home.run("list", "runs", "--columns", "id,age,elapsed")
    if answer.returncode != 0 or " -" in answer.stdout:
        drill_round.violate(f"`gofer list runs` after the clock was set: {answer.stdout} {answer.stderr}")
