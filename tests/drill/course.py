"""The order of a drill: which scenarios, in which rounds, with which seeds."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from drill.alone import alone
from drill.clock import clock
from drill.crowd import submitters
from drill.disk import disk_full
from drill.home import Home
from drill.hunt import Hunter
from drill.queue_loss import queue_corrupt, queue_lost
from drill.reboot import reboot
from drill.round import Round
from drill.tally import Tally
from drill.torn import torn

_KILLS_A_ROUND = 14
_SHOWN = 8


class Course:
    """Runs scenarios one after the other; the folder of a clean round is removed, that of any other kept.

    With `brief` the scenarios do less of the same.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        minutes: float | None = None,
        brief: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.brief = brief
        self.tally = Tally()
        self.say = say
        self._deadline = None if minutes is None else time.monotonic() + minutes * 60
        self._rounds = 0

    def run(self, names: Sequence[str], *, kills: int) -> None:
        """A round is closed after the next one: its processes had time to leave, and nobody waited."""
        last: Round | None = None
        for name in names:
            if name in NEEDS_ROOT and os.geteuid() != 0:
                self.say(f"{name} left out: it needs root")
                continue
            self.say(f"{name} (seed {self.seed})")
            for game in SCENARIOS[name](self, kills):
                if last is not None:
                    self.close(last)
                last = game
        if last is not None:
            self.close(last)

    @property
    def time_is_up(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def scale(self, count: int) -> int:
        return count // 4 if self.brief else count

    def place(self) -> Path:
        """A folder for the next round."""
        self._rounds += 1
        return self.folder / f"round-{self._rounds}"

    def begin(self, scenario: str, home: Home) -> Round:
        return Round(scenario, self.seed * 10_000 + self._rounds, self.tally, home)

    def close(self, game: Round) -> None:
        """The last checks of a round, and its folder with it if all went well."""
        violations = game.close()
        self.tally.violations += violations
        if violations:
            self.say(f"  {len(violations)} VIOLATIONS in {game.home.root}")
        for broken in violations[:_SHOWN]:
            self.say(f"    {broken.words[:400]}")
        if not violations:
            shutil.rmtree(game.home.root, ignore_errors=True)


def hunt(course: Course, kills: int) -> Iterator[Round]:
    """Kills at random points until there were `kills` of them in the whole drill."""
    while course.tally.killed < kills and not course.time_is_up:
        game = course.begin("hunt", Home(course.place()))
        Hunter(game, min(_KILLS_A_ROUND, kills - course.tally.killed)).run()
        game.settle()
        course.say(f"  {course.tally.killed} kills, {course.tally.elapsed_s:.0f} s")
        yield game


SCENARIOS: dict[str, Callable[[Course, int], Iterable[Round]]] = {
    "submitters": submitters,
    "alone": alone,
    "disk-full": disk_full,
    "torn": torn,
    "clock": clock,
    "reboot": reboot,
    "queue-lost": queue_lost,
    "queue-corrupt": queue_corrupt,
    "hunt": hunt,
}
NEEDS_ROOT = ("disk-full", "reboot")
