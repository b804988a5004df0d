"""Eight processes submit at the same time while the supervisor is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drill.home import Home
from drill.round import Round
from drill.workload import draw

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_SUBMITTERS = 8


def submitters(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """Every submission is answered with an id, and every id runs once."""
    del kills
    drill_round = runner.begin("submitters", Home(runner.place()))
    total, started = runner.scale(64), 0
    while started < total or drill_round.commands:
        while started < total and len(drill_round.commands) < _SUBMITTERS:
            started += 1
            spec = draw(drill_round.rng, started, with_code=True)
            drill_round.start(spec.words(drill_round.home.script), spec)
            if drill_round.rng.random() < 0.15:
                drill_round.kill_supervisor()
        for command in [one for one in drill_round.commands if one.has_ended]:
            drill_round.collect(command)
        time.sleep(0.002)
    if len(drill_round.printed) != total:
        drill_round.violate(f"{total} submissions printed {len(drill_round.printed)} ids")
    drill_round.settle()
    yield drill_round
