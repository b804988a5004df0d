"""Which folder working copies are made in, and whose folders are removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from socket_project import short_folder

from gofer.core.node_request import decode
from gofer.node.code import work_folders

RUN = "r261118-090530-r5p42f"
REQUEST = {"id": RUN, "layout": {"nodes": 1}, "span": None}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Takes the part of /var/tmp."""
    with short_folder() as path:
        path.chmod(0o1777)
        monkeypatch.setenv("GOFER_WORK_DIR", str(path))
        yield path


def make_queue_home(top: Path, *, host: str = "host") -> str:
    queue_home = top / "state" / "engine" / host
    queue_home.mkdir(parents=True, mode=0o700)
    return str(queue_home)


def copies(queue_home: str, **more: object) -> Path:
    return Path(work_folders.copies_folder(queue_home, RUN, decode({**REQUEST, **more}), is_row=False))


def remove(queue_home: str, request_id: str) -> None:
    for _ in work_folders.remove_in_steps(queue_home, request_id):
        pass


def test_beside_the_queue_as_long_as_the_path_is_short(place: Path) -> None:
    """To the byte: the copy `99-0/c` of the run may have the longest path there is."""
    longest = work_folders.LONGEST_COPY - len(f"/state/w/{RUN}/99-0/c")
    for length, is_beside in ((longest, True), (longest + 1, False)):
        top = place / ("h" * (length - len(f"{place}/")))
        assert len(str(top)) == length
        found = copies(make_queue_home(top))
        assert found.is_relative_to(top) == is_beside
        assert found.is_relative_to(place / f"gofer-{os.getuid()}") != is_beside


def test_the_real_path_counts(tmp_path: Path, place: Path) -> None:
    """The folder that a program asks the system for is the real one, whatever link led there."""
    (tmp_path / ("x" * 80)).mkdir()
    (place / "link").symlink_to(tmp_path / ("x" * 80))
    assert copies(make_queue_home(place / "link")).is_relative_to(place / f"gofer-{os.getuid()}")


def test_none_keeps_copies_beside_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFER_WORK_DIR", "none")
    assert copies(make_queue_home(tmp_path / ("x" * 80))).is_relative_to(tmp_path)


@pytest.mark.parametrize("home", ["s", "s" * 80])
def test_machines_that_share_a_home_have_folders_of_their_own(place: Path, home: str) -> None:
    """For a run with a node on each of two machines."""
    one, other = (make_queue_home(place / home, host=name) for name in ("one", "other"))
    first, second = copies(one, span=(0,)), copies(other, span=(1,))
    assert first != second and first.is_relative_to(place / home) == (home == "s")
    remove(one, RUN)
    assert second.is_dir() and not first.exists()


@pytest.mark.root
@pytest.mark.parametrize("options", ["size=1m", "size=100g,noexec"])
def test_a_small_disk_and_one_without_programs_are_not_used(
    tmp_path: Path, place: Path, options: str
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "tmpfs", place], check=True)
    try:
        assert copies(make_queue_home(tmp_path / ("x" * 80))).is_relative_to(tmp_path)
        assert os.listdir(place) == []
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_home_that_was_copied_does_not_remove_the_copies_of_the_other(tmp_path: Path, place: Path) -> None:
    queue_home = make_queue_home(tmp_path / ("x" * 80))
    found = copies(queue_home)
    clone = shutil.copytree(tmp_path / ("x" * 80), tmp_path / ("y" * 80), symlinks=True)
    remove(str(clone / "state/engine/host"), RUN)
    assert found.is_dir() and not (clone / "state/engine/host/work" / RUN).exists()
    remove(queue_home, RUN)
    assert not found.exists() and not found.parent.exists()


def test_a_folder_that_came_into_other_hands_is_neither_used_nor_removed(tmp_path: Path, place: Path) -> None:
    """A cleaner removed the user's own folder, and somebody put a link there."""
    queue_home = make_queue_home(tmp_path / ("x" * 80))
    found = copies(queue_home)
    own = place / f"gofer-{os.getuid()}"
    own.rename(place / "before")
    own.symlink_to(place / "before")
    remove(queue_home, RUN)
    assert (place / "before" / found.relative_to(own)).is_dir()
    assert copies(queue_home).is_relative_to(tmp_path)


def test_what_a_killed_agent_of_a_node_left_is_removed(tmp_path: Path, place: Path) -> None:
    """Unless a living agent holds it, or it is new."""
    queue_home = tmp_path / ("x" * 80)
    queue_home.mkdir()

    def folder(name: str) -> Path:
        return Path(work_folders.node_folder(str(queue_home), name, "c"))

    held, new = folder("held"), folder("new")
    assert held.parent.is_relative_to(place)
    (held / "c").mkdir(parents=True)
    (new / "c").mkdir(parents=True)
    assert folder("other").parent == new.parent and new.is_dir()
    words = "import sys, time; from gofer.node.code import work_folders\n"
    words += f"time.time = lambda: {time.time() + 7200}\n"
    words += "work_folders.node_folder(*sys.argv[1:], 'other', 'c')"
    later = [sys.executable, "-c", words, str(queue_home)]
    with work_folders.held(str(held)):
        subprocess.run(later, check=True)
        assert held.is_dir() and not new.exists()
    subprocess.run(later, check=True)
    assert not held.exists()
