"""Supervisors are killed repeatedly and nobody runs a command: the queue must still be worked off."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from drill import processes
from drill.home import Home
from drill.random_kills import delay_s
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_PATIENCE_S = 180.0


def unattended(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """Remaining agents start a new supervisor for the runs that wait."""
    del kills
    drill_round = runner.begin("alone", Home(runner.place()))
    for number in range(1, runner.scale(12) + 1):
        drill_round.submit(
            Spec(number, nap="0.1", end=("0", "7", "once:3")[number % 3], gpus=number % 2 * 4, retries=1)
        )
    drill_round.submit(Spec(20, nap="0.02", rows=runner.scale(40)))
    for _ in range(runner.scale(24)):
        time.sleep(delay_s(drill_round.rng, 0.2))
        supervisor_process = processes.supervisor(drill_round.home)
        # Without an agent, no process would notice that the supervisor is gone.
        if supervisor_process is not None and processes.agents(drill_round.home, supervisor_process, set()):
            drill_round.kill_supervisor(", no command running")
    deadline = time.monotonic() + _PATIENCE_S
    while _open_runs(drill_round.home) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left := _open_runs(drill_round.home):
        drill_round.violate(f"{left} runs wait, and no process starts a supervisor")
    drill_round.settle()
    yield drill_round


def _open_runs(home: Home) -> int:
    with closing(sqlite3.connect(f"file:{home.queue_home / 'queue.db'}?mode=ro", uri=True)) as queue:
        found = queue.execute("SELECT count(*) FROM runs WHERE state IN ('queued', 'starting', 'running')")
        return int(found.fetchone()[0])
