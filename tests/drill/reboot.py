"""The machine restarts: all processes end at once, and the kernel has a new boot id. Needs root."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drill import evidence, processes
from drill.home import Home
from drill.random_kills import until
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MOUNT = f'mount --bind "$0" {_BOOT_ID} && exec "$@"'


def restart(home: Home) -> None:
    """Kill all processes of the home, then show its later commands the boot id of a restarted machine."""
    ids = {path.name for path in (home.store / "runs").glob("*")}
    for _ in range(2000):
        left = processes.left_over(home, ids)
        if not left:
            break
        for line in left:
            facts = processes.read_process(int(line.split()[0]))
            if facts is not None:
                processes.send_signal(facts.who)
        time.sleep(0.02)
    boot = home.root / "boot_id"
    boot.write_text(f"{uuid.uuid4()}\n")
    home.prefix = ("unshare", "--mount", "sh", "-c", _MOUNT, str(boot))


def reboot(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """What ran is lost to the restart and tried again where retries are left; what waited runs."""
    del kills
    drill_round = runner.begin("reboot", Home(runner.place()))
    running = [drill_round.submit(Spec(1, nap="hold")), drill_round.submit(Spec(2, nap="hold", retries=1))]
    waiting = [
        drill_round.submit(Spec(3, end="7")),
        drill_round.submit(Spec(4, rows=5)),
        drill_round.submit(Spec(5, gpus=4)),
    ]
    if not until(lambda: set(running) <= set(evidence.read_marks(drill_round.home)), timeout_s=180.0):
        drill_round.violate("the first runs did not start")
    restart(drill_round.home)
    drill_round.home.release()
    drill_round.restarted.update(one for one in running if one is not None)
    drill_round.settle()
    _check(drill_round, running, waiting)
    yield drill_round


def _check(drill_round: Round, running: list[str | None], waiting: list[str | None]) -> None:
    runs = {run.id: run for run in evidence.ask(drill_round.home).runs}
    first, second = (runs[one] for one in running if one is not None)
    if [first.state, first.reason] != ["lost", "node-failure"]:
        drill_round.violate(f"{first.id} was running and is {first.state}, {first.reason}")
    if [one.state for one in second.attempts] != ["lost", "succeeded"]:
        drill_round.violate(f"{second.id} was running, has a retry, and its attempts are {second.attempts}")
    for run in runs.values():
        if run.owner in waiting and (run.state == "lost" or len(run.attempts) != 1):
            drill_round.violate(f"{run.id} waited and is {run.state} after {len(run.attempts)} attempts")
