"""`DrillRunner` runs the scenarios of a drill in rounds, each with its seed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from drill.clock import clock
from drill.disk import disk_full
from drill.home import Home
from drill.queue_loss import queue_corrupt, queue_lost
from drill.random_kills import RandomKiller
from drill.reboot import reboot
from drill.round import Round
from drill.submitters import submitters
from drill.tally import Tally
from drill.torn import torn
from drill.unattended import unattended

_KILLS_A_ROUND = 14
_SHOWN = 8


class DrillRunner:
    """Runs scenarios one after the other. The folder of a round without violations is removed.

    With `brief` each scenario does less.
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
        """Each round is closed after the next one, so that its processes have time to end without a wait."""
        last: Round | None = None
        for name in names:
            if name in NEEDS_ROOT and os.geteuid() != 0:
                self.say(f"{name} left out: it needs root")
                continue
            self.say(f"{name} (seed {self.seed})")
            for drill_round in SCENARIOS[name](self, kills):
                if last is not None:
                    self.close(last)
                last = drill_round
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

    def close(self, drill_round: Round) -> None:
        """The last checks of a round, and its folder with it if all went well."""
        violations = drill_round.close()
        self.tally.violations += violations
        if violations:
            self.say(f"  {len(violations)} VIOLATIONS in {drill_round.home.root}")
        for broken in violations[:_SHOWN]:
            self.say(f"    {broken.words[:400]}")
        if not violations:
            shutil.rmtree(drill_round.home.root, ignore_errors=True)


def random_kills(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """Kills at random points until there were `kills` of them in the whole drill."""
    while runner.tally.killed < kills and not runner.time_is_up:
        drill_round = runner.begin("random-kills", Home(runner.place()))
        RandomKiller(drill_round, min(_KILLS_A_ROUND, kills - runner.tally.killed)).run()
        drill_round.settle()
        runner.say(f"  {runner.tally.killed} kills, {runner.tally.elapsed_s:.0f} s")
        yield drill_round


SCENARIOS: dict[str, Callable[[DrillRunner, int], Iterable[Round]]] = {
    "submitters": submitters,
    "unattended": unattended,
    "disk-full": disk_full,
    "torn": torn,
    "clock": clock,
    "reboot": reboot,
    "queue-lost": queue_lost,
    "queue-corrupt": queue_corrupt,
    "random-kills": random_kills,
}
NEEDS_ROOT = ("disk-full", "reboot")
