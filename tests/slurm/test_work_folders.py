"""The path of a run's folder is short enough for Unix sockets, on real nodes of Slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome
from socket_project import COMMAND, bind, short_folder, write_project

pytestmark = ON_SLURM


@pytest.fixture
def short() -> Iterator[Path]:
    with short_folder() as path:
        yield path


def configure(home: SlurmHome, *, folder: Path, scratch: Path) -> None:
    home.far = folder
    own = f"kind: slurm, gpus_per_node: 4, folder: {folder}, scratch: {scratch}, store: fs"
    stores = f"stores: {{fs: {{url: 'file://{home.store}'}}}}"
    home.configure(f"targets: {{lab: {{{own}}}}}\n{stores}\ntarget: lab\n")


def test_a_socket_is_bound_on_the_scratch_disk(tmp_path: Path, slurm: Slurm, short: Path) -> None:
    home = SlurmHome(tmp_path, slurm)
    configure(home, folder=tmp_path / "far", scratch=short)
    for options in ((), ("--each", "x=1")):
        copy = bind(home, *options)
        assert copy.is_relative_to(short)
    (own,) = short.glob("gofer-*")
    assert not [*own.glob("w/*"), *own.glob("work/*")]


def test_a_socket_is_bound_where_the_path_of_the_scratch_disk_is_long(tmp_path: Path, slurm: Slurm) -> None:
    long = tmp_path / ("x" * 150)
    long.mkdir()
    home = SlurmHome(tmp_path, slurm)
    configure(home, folder=tmp_path / "far", scratch=long)
    copy = bind(home)
    assert copy.is_relative_to(Path("/var/tmp") / f"gofer-{os.getuid()}" / "w")
    assert not copy.parent.exists()
    (own,) = long.glob("gofer-*")
    assert not list(own.glob("work/*"))


def test_a_socket_is_bound_in_the_copy_that_all_nodes_see(tmp_path: Path, slurm: Slurm, short: Path) -> None:
    home = SlurmHome(tmp_path, slurm)
    configure(home, folder=short, scratch=tmp_path)
    write_project(home.folder)
    run = home.gofer("submit", "-Q", "--wait", "-n", "8", "srun", "-N1", "-n1", *COMMAND).out.strip()
    copy = Path(home.log(run).strip())
    assert copy.is_relative_to(home.handoff_folder(run))
    assert not copy.parent.exists()
