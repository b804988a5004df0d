"""Eight submitters at once, and a supervisor that is killed under them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drill.home import Home
from drill.round import Round
from drill.workload import draw

if TYPE_CHECKING:
    from drill.course import Course

_SUBMITTERS = 8


def submitters(course: Course, kills: int) -> Iterator[Round]:
    """Every submission is answered with an id, and every id runs once."""
    del kills
    game = course.begin("submitters", Home(course.place()))
    total, started = course.scale(64), 0
    while started < total or game.commands:
        while started < total and len(game.commands) < _SUBMITTERS:
            started += 1
            spec = draw(game.rng, started, with_code=True)
            game.start(spec.words(game.home.script), spec)
            if game.rng.random() < 0.15:
                game.kill_supervisor()
        for command in [one for one in game.commands if one.has_ended]:
            game.collect(command)
        time.sleep(0.002)
    if len(game.printed) != total:
        game.violate(f"{total} submissions printed {len(game.printed)} ids")
    game.settle()
    yield game
