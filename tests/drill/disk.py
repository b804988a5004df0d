"""A disk that is full to the last byte while runs start and end, and is freed again. Needs root."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drill.home import Home
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.course import Course

_SIZE = "6m"
_FULL_S = 4.0


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system in memory that holds a few MiB."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "drill", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Not one more byte fits until the end of the block."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    try:
        yield
    finally:
        ballast.unlink()


def disk_full(course: Course, kills: int) -> Iterable[Round]:
    """The store, the engine, or all of gofer's folders on a disk that fills up: states stay true.

    Rounds are closed here, while their disk is there.
    """
    del kills
    for what in ("store", "engine", "home"):
        place = course.place()
        with small_disk(place / "disk") as disk:
            game = course.begin("disk-full", _home(what, place, disk))
            _use(game, disk)
            course.close(game)
    return ()


def _home(what: str, place: Path, disk: Path) -> Home:
    if what == "store":
        return Home(place, store=disk / "store")
    if what == "engine":
        return Home(place, engine=disk / "engine")
    return Home(place, gofer_home=disk / "home")


def _use(game: Round, disk: Path) -> None:
    """Runs that end while the disk is full, wait for their start, are tried again, or come meanwhile."""
    early = [
        *(Spec(1, nap="1"), Spec(2, nap="1.5", end="7"), Spec(3, nap="1", end="SIGKILL", retries=1)),
        *(Spec(4, nap="1", gpus=2), Spec(5, nap="0.3", rows=5), Spec(6, nap="0.2", end="once:3", retries=2)),
    ]
    for spec in early:
        game.submit(spec)
    game.may_refuse = True
    for number in range(course_bursts(game)):
        with filled(disk):
            began = time.monotonic()
            for offset in range(3):
                game.submit(Spec(10 * (number + 1) + offset, nap="0.2", end=("0", "9", "SIGTERM")[offset]))
            time.sleep(max(0.0, began + _FULL_S - time.monotonic()))
        time.sleep(0.7)
    game.settle()


def course_bursts(game: Round) -> int:
    """Once, or twice: the second fill meets runs that the first one delayed."""
    return game.rng.choice((1, 2))
