"""The machine restarts: every process is gone at once, and the kernel has another boot id. Needs root."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drill import evidence, prey
from drill.home import Home
from drill.hunt import until
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.course import Course

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MOUNT = f'mount --bind "$0" {_BOOT_ID} && exec "$@"'


def restart(home: Home) -> None:
    """Kill all processes of the home, then have its later commands see a machine that was started anew."""
    ids = {path.name for path in (home.store / "runs").glob("*")}
    for _ in range(2000):
        left = prey.left_over(home, ids)
        if not left:
            break
        for line in left:
            facts = prey.look(int(line.split()[0]))
            if facts is not None:
                prey.hit(facts.who)
        time.sleep(0.02)
    boot = home.root / "boot_id"
    boot.write_text(f"{uuid.uuid4()}\n")
    home.prefix = ("unshare", "--mount", "sh", "-c", _MOUNT, str(boot))


def reboot(course: Course, kills: int) -> Iterator[Round]:
    """What ran is lost to the restart and tried again where retries are left; what waited runs."""
    del kills
    game = course.begin("reboot", Home(course.place()))
    running = [game.submit(Spec(1, nap="hold")), game.submit(Spec(2, nap="hold", retries=1))]
    waiting = [game.submit(Spec(3, end="7")), game.submit(Spec(4, rows=5)), game.submit(Spec(5, gpus=4))]
    if not until(lambda: set(running) <= set(evidence.read_marks(game.home)), timeout_s=180.0):
        game.violate("the first runs did not start")
    restart(game.home)
    game.home.release()
    game.restarted.update(one for one in running if one is not None)
    game.settle()
    _check(game, running, waiting)
    yield game


def _check(game: Round, running: list[str | None], waiting: list[str | None]) -> None:
    runs = {run.id: run for run in evidence.ask(game.home).runs}
    first, second = (runs[one] for one in running if one is not None)
    if [first.state, first.reason] != ["lost", "node-failure"]:
        game.violate(f"{first.id} was running and is {first.state}, {first.reason}")
    if [one.state for one in second.attempts] != ["lost", "succeeded"]:
        game.violate(f"{second.id} was running, has a retry, and its attempts are {second.attempts}")
    for run in runs.values():
        if run.owner in waiting and (run.state == "lost" or len(run.attempts) != 1):
            game.violate(f"{run.id} waited and is {run.state} after {len(run.attempts)} attempts")
