"""The queue's file is deleted, or full of rubbish, while runs wait and run in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from drill import evidence
from drill.home import Home
from drill.hunt import until
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.course import Course

_FILES = ("queue.db", "queue.db-wal", "queue.db-shm")


def queue_lost(course: Course, kills: int) -> Iterator[Round]:
    """The file is gone."""
    del kills
    for with_supervisor in (True,) if course.brief else (True, False):
        yield _lose(course, "queue-lost", _delete, with_supervisor)


def queue_corrupt(course: Course, kills: int) -> Iterator[Round]:
    """The file is damaged at its beginning, or behind it."""
    del kills
    for damage in (_garble_body,) if course.brief else (_garble_head, _garble_body):
        for with_supervisor in (True,) if course.brief else (True, False):
            yield _lose(course, "queue-corrupt", damage, with_supervisor)


def _lose(course: Course, name: str, damage: Callable[[Round], None], with_supervisor: bool) -> Round:
    """All runs still end true and once; one that was aborted before stays so."""
    game = course.begin(name, Home(course.place()))
    # Which GPUs an attempt had, and when it was settled, only the queue knew.
    game.rebuilt_keys = ("state", "reason", "exit_code", "counts", "command", "tags", "submitted_at")
    running = [
        game.submit(Spec(1, nap="hold", end="7")),
        game.submit(Spec(2, nap="hold", end="once:3", retries=1)),
    ]
    game.submit(Spec(3, nap="0.1", gpus=4, retries=1))
    group = game.submit(Spec(4, nap="0.05", rows=12))
    for one in (game.submit(Spec(5)), f"{group}-11"):
        game.aborted.add(str(one))
        game.home.run("abort", "--quiet", str(one))
    if not until(lambda: set(running) <= set(evidence.read_marks(game.home)), timeout_s=180.0):
        game.violate("the first runs did not start")
    if not with_supervisor:
        game.kill_supervisor()
    damage(game)
    game.may_refuse = True
    for number in range(6, 9):
        game.submit(Spec(number, nap="0.1", end="9"))
        time.sleep(0.3)
    game.home.release()
    game.settle()
    return game


def _delete(game: Round) -> None:
    for name in _FILES:
        (game.home.queue_home / name).unlink(missing_ok=True)


def _garble_head(game: Round) -> None:
    _overwrite(game, 0)


def _garble_body(game: Round) -> None:
    _overwrite(game, 4096)


def _overwrite(game: Round, start: int) -> None:
    """Rubbish from `start` to the end, in the file and in what is to be merged into it."""
    for name in _FILES[:2]:
        path = game.home.queue_home / name
        if path.exists():
            with path.open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(start)
                file.write(game.rng.randbytes(max(0, size - start)))
