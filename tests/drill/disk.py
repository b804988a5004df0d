"""A disk that is full to the last byte while runs start and end, and is freed again. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drill import evidence
from drill.home import Home
from drill.random_kills import until
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_MIB = 6
_FULL_S = 4.0


@contextmanager
def small_disk(path: Path, kind: str) -> Iterator[Path]:
    """A file system that holds a few MiB. On ext4 a new name may need a block too, on tmpfs only bytes do."""
    path.mkdir(parents=True)
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_MIB}m", "drill", str(path)], check=True)
    else:
        image = path.with_suffix(".img")
        image.write_bytes(b"")
        os.truncate(image, _MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(path)], check=True)
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


def disk_full(runner: DrillRunner, kills: int) -> Iterable[Round]:
    """The store, the queue home, or all of gofer's folders on a disk that fills up: states stay true.

    Rounds are closed here, while their disk is there.
    """
    del kills
    places = [("store", "ext4"), ("home", "tmpfs"), ("engine", "ext4"), ("home", "ext4"), ("store", "tmpfs")]
    for what, kind in places[: 1 if runner.brief else None]:
        place = runner.place()
        with small_disk(place / "disk", kind) as disk:
            drill_round = runner.begin("disk-full", _home(what, place, disk))
            _use(drill_round, disk)
            runner.close(drill_round)
        if not drill_round.violations:
            shutil.rmtree(place)
    return ()


def _home(what: str, place: Path, disk: Path) -> Home:
    if what == "store":
        return Home(place, store=disk / "store")
    if what == "engine":
        return Home(place, queue_home=disk / "engine")
    return Home(place, gofer_home=disk / "home")


def _use(drill_round: Round, disk: Path) -> None:
    """Runs that end while the disk is full, that are to be started then, or come meanwhile."""
    holding = [drill_round.submit(Spec(1, nap="hold", end="7"))]
    retried = [Spec(2, end="once:3", retries=2), Spec(3, end="7", retries=2)]
    for spec in retried:
        drill_round.submit(spec)
    if not until(lambda: _done(drill_round) >= len(retried), timeout_s=180.0):
        drill_round.violate(f"the first runs did not start: {holding}")
    with filled(disk):
        drill_round.home.release()
        _meanwhile(drill_round, 10)
    for number, spec in enumerate((Spec(20, nap="1.5", end="7"), Spec(21, nap="0.1", rows=5))):
        drill_round.submit(spec._replace(gpus=2 * number))
    drill_round.submit(Spec(22, nap="1", end="SIGKILL", retries=1))
    with filled(disk):
        _meanwhile(drill_round, 30)
    drill_round.settle()


def _meanwhile(drill_round: Round, number: int) -> None:
    """Submissions may be refused; those that are not must run."""
    drill_round.may_refuse = True
    began = time.monotonic()
    for offset, end in enumerate(("0", "9", "SIGTERM")):
        drill_round.submit(Spec(number + offset, nap="0.2", end=end))
    time.sleep(max(0.0, began + _FULL_S - time.monotonic()))
    drill_round.may_refuse = False


def _done(drill_round: Round) -> int:
    marks = evidence.read_marks(drill_round.home)
    return sum(
        "done" in lines for run in marks.values() for ranks in run.values() for lines in ranks.values()
    )
