"""The queue's file is deleted, or full of rubbish, while runs wait and run in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from drill import evidence
from drill.home import Home
from drill.random_kills import until
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_FILES = ("queue.db", "queue.db-wal", "queue.db-shm")


def queue_lost(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """The file is gone."""
    del kills
    for with_supervisor in (True,) if runner.brief else (True, False):
        yield _lose(runner, "queue-lost", _delete, with_supervisor)


def queue_corrupt(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """The file is damaged at its beginning, or behind it."""
    del kills
    for damage in (_garble_body,) if runner.brief else (_garble_head, _garble_body):
        for with_supervisor in (True,) if runner.brief else (True, False):
            yield _lose(runner, "queue-corrupt", damage, with_supervisor)


def _lose(runner: DrillRunner, name: str, damage: Callable[[Round], None], with_supervisor: bool) -> Round:
    """All runs still end true and once; one that was aborted before stays so."""
    drill_round = runner.begin(name, Home(runner.place()))
    # Which GPUs an attempt had, and when it was settled, only the queue knew.
    drill_round.rebuilt_keys = ("state", "reason", "exit_code", "counts", "command", "tags", "submitted_at")
    running = [
        drill_round.submit(Spec(1, nap="hold", end="7")),
        drill_round.submit(Spec(2, nap="hold", end="once:3", retries=1)),
    ]
    drill_round.submit(Spec(3, nap="0.1", gpus=4, retries=1))
    group = drill_round.submit(Spec(4, nap="0.05", rows=12))
    for one in (drill_round.submit(Spec(5)), f"{group}-11"):
        drill_round.aborted.add(str(one))
        drill_round.home.run("abort", "--quiet", str(one))
    if not until(lambda: set(running) <= set(evidence.read_marks(drill_round.home)), timeout_s=180.0):
        drill_round.violate("the first runs did not start")
    if not with_supervisor:
        drill_round.kill_supervisor()
    damage(drill_round)
    drill_round.may_refuse = True
    for number in range(6, 9):
        drill_round.submit(Spec(number, nap="0.1", end="9"))
        time.sleep(0.3)
    drill_round.home.release()
    drill_round.settle()
    return drill_round


def _delete(drill_round: Round) -> None:
    for name in _FILES:
        (drill_round.home.queue_home / name).unlink(missing_ok=True)


def _garble_head(drill_round: Round) -> None:
    _overwrite(drill_round, 0)


def _garble_body(drill_round: Round) -> None:
    _overwrite(drill_round, 4096)


def _overwrite(drill_round: Round, start: int) -> None:
    """Rubbish from `start` to the end, in the file and in what is to be merged into it."""
    for name in _FILES[:2]:
        path = drill_round.home.queue_home / name
        if path.exists():
            with path.open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(start)
                file.write(drill_round.rng.randbytes(max(0, size - start)))
