"""Where the drill can be held: a machine over SSH, and a Slurm cluster behind its login node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from clusters.fixtures import boxed, running
from clusters.line import Line
from home import Home

from linedrill.faults import LineFaults
from linedrill.line_drill import DrillSetup, LineDrill


def _home(folder: Path, bin_folder: Path, config: str) -> Home:
    home = Home(folder)
    home.environ["PATH"] = f"{bin_folder}:{home.environ['PATH']}"
    home.configure(config)
    return home


def _course(home: Home, line: Line, seed: int) -> LineDrill:
    return LineDrill(DrillSetup(home, LineFaults(line), lambda rng: ["--no-code", "-t", "far"]), seed=seed)


@contextmanager
def on_ssh(folder: Path, seed: int) -> Iterator[LineDrill]:
    """One machine behind another."""
    with boxed(None) as machines:
        home = _home(folder, machines.bin, "targets: {far: {kind: ssh, hosts: [hostb]}}\n")
        yield _course(home, machines.lines["hostb"], seed)


@contextmanager
def on_slurm(folder: Path, seed: int) -> Iterator[LineDrill]:
    """A cluster without accounting, asked through its login node."""
    with running() as slurm, boxed(slurm) as machines:
        shared = folder / "shared"
        shared.mkdir()
        config = (
            "targets: {far: {kind: slurm, login: login, store: lab, "
            f"folder: '{shared}/gofer'}}}}\nstores: {{lab: {{url: 'file://{shared}/store'}}}}\n"
        )
        (shared / "store").mkdir()
        yield _course(_home(folder, machines.bin, config), machines.lines["login"], seed)


SITES: dict[str, Callable[[Path, int], AbstractContextManager[LineDrill]]] = {
    "ssh": on_ssh,
    "slurm": on_slurm,
}
