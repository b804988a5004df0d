"""Runs on Slurm from other folders than the one that they were submitted from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def test_every_verb_works_from_any_folder_and_without_the_project(home: SlurmHome, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    run = home.submit("bash", "-c", "echo there; exec sleep 600")
    home.until_view(run, state="running")
    home.until_logged(run, "there")
    assert "there" in home.gofer("q", run, cwd=elsewhere).out
    assert home.gofer("logs", run, cwd=elsewhere).out == "there\n"
    assert "warning" not in home.gofer("list", "runs", cwd=elsewhere).err
    assert home.gofer("abort", run, cwd=elsewhere).out == f"{run} cancelled\n"
    again = home.gofer("resubmit", "-Q", run, cwd=elsewhere).out.strip()
    shutil.rmtree(home.folder)
    assert home.gofer("abort", again, cwd=elsewhere).out == f"{again} cancelled\n"
    third = home.gofer("resubmit", "-Q", again, cwd=elsewhere).out.strip()
    assert home.gofer("abort", third, cwd=elsewhere).out == f"{third} cancelled\n"
    home.folder.mkdir()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["ls *.py | wc -l"], "bash -c 'ls *.py | wc -l'"),
        (["FOO=1", "python3", "train.py"], "`gofer submit -e FOO=1 python3 train.py`"),
        (["source", "x"], "bash -c 'source x && COMMAND'"),
    ],
)
def test_a_line_for_a_shell_is_refused_where_the_program_cannot_be_looked_up(
    home: SlurmHome, words: list[str], hint: str
) -> None:
    refused = home.gofer("submit", "--no-code", *words, status=1)
    assert hint in refused.err
    assert home.gofer("list", "runs", "--json").out == "[]\n"


def test_a_script_with_spaces_and_signs_in_its_name_is_a_program(home: SlurmHome) -> None:
    script = home.folder / "my $ tool"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    run = home.gofer("submit", "-Q", "--wait", "./my $ tool").out.strip()
    assert home.log(run) == "ran\n"
