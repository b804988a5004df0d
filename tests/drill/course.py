"""The order of a drill: which scenarios, in which rounds, with which seeds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from drill.home import Home
from drill.hunt import Hunter
from drill.round import Round
from drill.tally import Tally

_KILLS_A_ROUND = 14

Step = Callable[["Course", int], Iterator[Round]]


class Course:
    """Runs scenarios one after the other; the folder of a clean round is removed, that of any other kept."""

    def __init__(
        self, folder: Path, *, seed: int, minutes: float | None = None, say: Callable[[str], None] = print
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.tally = Tally()
        self.say = say
        self._deadline = None if minutes is None else time.monotonic() + minutes * 60
        self._rounds = 0
        self._open: Round | None = None

    def run(self, names: Sequence[str], *, kills: int) -> None:
        for name in names:
            self.say(f"{name} (seed {self.seed})")
            for one in SCENARIOS[name](self, kills):
                self._close_last()
                self._open = one
        self._close_last()

    @property
    def time_is_up(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def place(self) -> Path:
        """A folder for the next round."""
        self._rounds += 1
        return self.folder / f"round-{self._rounds}"

    def begin(self, scenario: str, home: Home) -> Round:
        return Round(scenario, self.seed * 10_000 + self._rounds, self.tally, home)

    def _close_last(self) -> None:
        """A round is closed after the next one: its processes had time to leave, and nobody waited."""
        one, self._open = self._open, None
        if one is None:
            return
        violations = one.close()
        self.tally.violations += violations
        for broken in violations:
            self.say(f"  VIOLATION {broken.words}  [{one.home.root}]")
        if not violations:
            shutil.rmtree(one.home.root)


def hunt(course: Course, kills: int) -> Iterator[Round]:
    """Kills at random points until there were `kills` of them in the whole drill."""
    while course.tally.killed < kills and not course.time_is_up:
        game = course.begin("hunt", Home(course.place()))
        Hunter(game, min(_KILLS_A_ROUND, kills - course.tally.killed)).run()
        game.settle()
        course.say(f"  {course.tally.killed} kills, {course.tally.elapsed_s:.0f} s")
        yield game


SCENARIOS: dict[str, Step] = {"hunt": hunt}
