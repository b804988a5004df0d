"""Supervisors are killed again and again and nobody gives a command: the queue is worked off all the same."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from drill import prey
from drill.home import Home
from drill.hunt import delay_s
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.course import Course

_PATIENCE_S = 180.0


def alone(course: Course, kills: int) -> Iterator[Round]:
    """The agents that are left see to it that there is a supervisor for those that wait."""
    del kills
    game = course.begin("alone", Home(course.place()))
    for number in range(1, course.scale(12) + 1):
        game.submit(
            Spec(number, nap="0.1", end=("0", "7", "once:3")[number % 3], gpus=number % 2 * 4, retries=1)
        )
    game.submit(Spec(20, nap="0.02", rows=course.scale(40)))
    for _ in range(course.scale(24)):
        time.sleep(delay_s(game.rng, 0.2))
        boss = prey.supervisor(game.home)
        # With no agent yet, nobody would be there to miss it.
        if boss is not None and prey.agents(game.home, boss, set()):
            game.kill_supervisor(", nobody else there")
    deadline = time.monotonic() + _PATIENCE_S
    while _open_runs(game.home) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left := _open_runs(game.home):
        game.violate(f"{left} runs wait for a supervisor that nobody starts")
    game.settle()
    yield game


def _open_runs(home: Home) -> int:
    with closing(sqlite3.connect(f"file:{home.queue_home / 'queue.db'}?mode=ro", uri=True)) as queue:
        found = queue.execute("SELECT count(*) FROM runs WHERE state IN ('queued', 'starting', 'running')")
        return int(found.fetchone()[0])
