"""Runs on Slurm from other folders than the one that they were submitted from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.desk import Desk

pytestmark = ON_SLURM


@pytest.fixture
def desk(tmp_path: Path, slurm: Slurm) -> Desk:
    return Desk(tmp_path, slurm)


def test_every_verb_works_from_any_folder_and_without_the_project(desk: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    run = desk.submit("bash", "-c", "echo there; exec sleep 600")
    desk.until_view(run, state="running")
    desk.until_logged(run, "there")
    assert "there" in desk.gofer("q", run, cwd=elsewhere).out
    assert desk.gofer("logs", run, cwd=elsewhere).out == "there\n"
    assert "warning" not in desk.gofer("list", "runs", cwd=elsewhere).err
    assert desk.gofer("abort", run, cwd=elsewhere).out == f"{run} cancelled\n"
    again = desk.gofer("resubmit", "-Q", run, cwd=elsewhere).out.strip()
    shutil.rmtree(desk.folder)
    assert desk.gofer("abort", again, cwd=elsewhere).out == f"{again} cancelled\n"
    third = desk.gofer("resubmit", "-Q", again, cwd=elsewhere).out.strip()
    assert desk.gofer("abort", third, cwd=elsewhere).out == f"{third} cancelled\n"
    desk.folder.mkdir()
