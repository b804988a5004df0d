"""Folders of one user at any umask, and folders that belong to somebody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from home import Home

from gofer.core import private_folder
from gofer.core.private_folder import ForeignFolder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_every_folder_that_is_made_is_closed_to_others_at_any_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "state" / "gofer" / "engine"
    old = os.umask(umask)
    try:
        private_folder.make(str(folder))
    finally:
        os.umask(old)
    assert [mode(one) for one in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3


def test_a_folder_that_was_open_is_closed_and_those_above_it_can_no_longer_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "gofer" / "engine"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    folder.parent.chmod(0o775)
    private_folder.make(str(folder), owned=2)
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o755)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gofer").touch()
    with pytest.raises(ForeignFolder, match="is not a folder"):
        private_folder.make(str(tmp_path / "gofer"))


@pytest.mark.root
def test_a_folder_of_another_user_or_a_link_of_theirs_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 61001, 61001)
    with pytest.raises(ForeignFolder, match="belongs to user 61001"):
        private_folder.make(str(theirs))
    mine, link = tmp_path / "mine", tmp_path / "link"
    mine.mkdir()
    link.symlink_to(mine)
    private_folder.make(str(link))
    os.lchown(link, 61001, 61001)
    with pytest.raises(ForeignFolder):
        private_folder.make(str(link))


def test_a_run_at_umask_002_leaves_no_folder_that_the_group_can_write(home: Home) -> None:
    old = os.umask(0o002)
    try:
        home.gofer("submit", "--wait", "true")
    finally:
        os.umask(old)
    engine = home.path / "engine"
    folders = [home.path, engine, *(path for path in engine.iterdir() if path.is_dir())]
    assert {str(path): oct(mode(path)) for path in folders if mode(path) != 0o700} == {}
