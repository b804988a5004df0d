"""The path of a run's folder is short enough for Unix sockets, and nothing of it stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from home import Home, until
from socket_project import COMMAND, bind, short_folder, write_project

from gofer.core import prune
from gofer.node.code.work_folders import LONGEST_COPY
from gofer.node.kept import records
from gofer.remote.local_kept_items import LocalKeptItems


@pytest.fixture
def place() -> Iterator[Path]:
    """Takes the part of /var/tmp."""
    with short_folder() as path:
        path.chmod(0o1777)
        yield path


@pytest.fixture
def long_home(tmp_path: Path, place: Path) -> Iterator[Home]:
    home = make_long(tmp_path, place)
    yield home
    home.close()


def make_long(tmp_path: Path, place: Path) -> Home:
    """A home whose path has more than 150 characters."""
    home = Home(tmp_path / ("x" * 150))
    home.environ["GOFER_WORK_DIR"] = str(place)
    return home


def copies_in(place: Path) -> list[Path]:
    """The folders of runs below the user's own folder there."""
    return sorted(place.glob("gofer-*/w/*/*"))


def until_removed(home: Home, place: Path) -> None:
    def left() -> list[Path]:
        return [*copies_in(place), *(home.path / "w").glob("*"), *(home.queue_home / "work").glob("*")]

    until(lambda: not left(), f"no copies: {left()}")


def test_a_socket_is_bound_beside_the_queue_where_its_path_is_short(place: Path) -> None:
    home = Home(place / "u")
    try:
        copy = bind(home)
        assert copy.is_relative_to(home.path / "w")
        row = bind(home, "--each", "x=1")
        assert row.is_relative_to(home.path / "w")
        assert max(len(os.fsencode(path)) for path in (copy, row)) <= LONGEST_COPY
        until_removed(home, place)
    finally:
        home.close()


def test_a_socket_is_bound_in_a_folder_of_the_users_own_where_the_home_is_long(
    long_home: Home, place: Path
) -> None:
    copies = [bind(long_home), bind(long_home, "--each", "x=1")]
    for copy in copies:
        assert copy.is_relative_to(place / f"gofer-{os.getuid()}" / "w")
    assert (place / f"gofer-{os.getuid()}").stat().st_mode & 0o777 == 0o700
    until_removed(long_home, place)
    # The folder of the queue goes with its last run; the user's own folder stays.
    assert not list(place.glob("gofer-*/w/*"))


def test_files_and_copies_over_the_limit_are_fetched_from_the_machine(long_home: Home, place: Path) -> None:
    check_that_files_come_home(long_home, place)


@pytest.mark.root
def test_files_and_copies_over_the_limit_are_kept_on_another_disk(long_home: Home, place: Path) -> None:
    """A disk that has less space than that of the queue is not used; this one says that it has enough."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20g,mode=1777", "tmpfs", place], check=True)
    try:
        assert place.stat().st_dev != long_home.root.stat().st_dev
        check_that_files_come_home(long_home, place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def check_that_files_come_home(home: Home, place: Path) -> None:
    write_project(home.folder)
    script = f"mkdir out; echo w > out/model.pt; ln -s model.pt out/last; {COMMAND[2].removeprefix('exec ')}"
    run_id = home.gofer("submit", "-Q", "--wait", "sh", "-c", script).out.strip()
    assert Path(home.log(run_id).strip()).is_relative_to(place)
    assert home.gofer("cat", f"{run_id}:out/model.pt").out == "w\n"
    assert os.readlink(home.run_folder(run_id) / "files/out/last") == "model.pt"
    script = f"head -c 9999 /dev/zero > big; {script}"
    large = home.gofer("submit", "-Q", "--wait", "--keep", "1k", "sh", "-c", script).out.strip()
    record = json.loads((home.run_folder(large) / "attempts/1/node-0/exit.json").read_text())
    kept = records.decode_kept(record)
    assert kept is not None and kept.copy is not None
    assert Path(kept.copy).is_relative_to(home.queue_home / "kept")
    home.gofer("extract", large, "there")
    assert (home.folder / "there/files/big").stat().st_size == 9999
    until_removed(home, place)


def test_a_copied_folder_stays_on_the_disk_of_the_queue(long_home: Home, place: Path) -> None:
    data = long_home.root / "data" / "d"
    data.mkdir(parents=True)
    (data / "a").write_text("shared\n")
    long_home.configure(
        f"stores: {{s: {{url: 'file://{data.parent}'}}}}\n"
        "folders: {data: {store: s, path: d, mode: copy}}\n"
    )
    run_id = long_home.gofer(
        "submit", "-Q", "--wait", "sh", "-c", "cat data/a; echo own > data/a; readlink data; pwd"
    ).out.strip()
    text, view, copy = long_home.log(run_id).splitlines()
    assert text == "shared" and (data / "a").read_text() == "shared\n"
    assert view.startswith(str(long_home.queue_home / "work")) and copy.startswith(str(place))
    until_removed(long_home, place)


def make_foreign(path: Path) -> None:
    path.mkdir()
    os.chown(path, 12345, 12345)


def make_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.mkdir()
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "plant", [pytest.param(make_foreign, marks=pytest.mark.root), make_link, Path.touch, None]
)
def test_a_folder_that_is_not_the_users_own_is_not_used(
    long_home: Home, place: Path, plant: Callable[[Path], None] | None
) -> None:
    """The run works in a folder with a long path, and `doctor` warns of it.

    None: everybody may rename what is in the place.
    """
    own = place / f"gofer-{os.getuid()}"
    if plant is None:
        place.chmod(0o777)
    else:
        plant(own)
    run_id = long_home.gofer("submit", "-Q", "--wait", "sh", "-c", "pwd; echo x > made").out.strip()
    assert Path(long_home.log(run_id).strip()).is_relative_to(long_home.path / "w")
    assert (long_home.run_folder(run_id) / "files/made").read_text() == "x\n"
    assert not list(place.glob("*/*"))
    assert "too long for Unix sockets" in long_home.gofer("doctor", status=None).out
    until_removed(long_home, place)


def test_two_homes_do_not_meet_and_a_killed_supervisors_copies_are_removed(
    tmp_path: Path, place: Path
) -> None:
    one, other = make_long(tmp_path / "a", place), make_long(tmp_path / "b", place)
    try:
        kept = other.submit("sh", "-c", "echo here; exec sleep 600")
        other.until_logged(kept, "here")
        run_id = one.submit("sh", "-c", "echo here; exec sleep 600")
        one.until_logged(run_id, "here")
        assert len(copies_in(place)) == 2
        assert len({path.parent for path in copies_in(place)}) == 2
        one.kill_all()
        assert len(copies_in(place)) == 2
        # Another supervisor, which was not told of the place.
        del one.environ["GOFER_WORK_DIR"]
        (lost,) = one.wait(run_id)
        assert lost["state"] == "lost"
        until(lambda: len(copies_in(place)) == 1, "the copies of the home that was killed are removed")
        assert [path.name for path in copies_in(place)] == [kept]
        other.gofer("abort", kept)
        until_removed(other, place)
    finally:
        one.close()
        other.close()


def test_what_an_older_version_left_is_removed(home: Home) -> None:
    """Its copies were in the folder of the queue; a run may be at work in one when gofer is updated."""
    ended = home.finish("true")["id"]
    old = home.queue_home / "work" / ended / "code-1-0"
    until(lambda: not old.parent.exists(), "the run's own folder to be removed")
    old.mkdir(parents=True)
    (old / "train.py").touch()
    home.kill_all()
    home.finish("true")
    until(lambda: not old.parent.exists(), "the folder to be removed")


def test_prune_removes_copies_that_stayed_on_the_disk_of_the_short_folder(
    long_home: Home, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they do where the disk of the queue has no space left for them."""
    long_home.queue_home.mkdir(parents=True, mode=0o700)
    (long_home.queue_home / "kept").touch()  # in the way of the folder that copies are moved to
    script = "head -c 9999 /dev/zero > big"
    run_id = long_home.gofer("submit", "-Q", "--wait", "--keep", "1k", "sh", "-c", script).out.strip()
    (copy,) = place.glob("gofer-*/w/*/kept/*")
    assert copy.name.startswith(run_id) and (copy / "big").stat().st_size == 9999
    assert "working copy" not in long_home.gofer("prune", "--dry-run").out
    # In this process, since the clock of a file system cannot be set.
    monkeypatch.setenv("GOFER_WORK_DIR", str(place))
    kept, later = LocalKeptItems(str(long_home.queue_home), None), time.time() + 60
    (found,) = kept.find(later, "")
    assert found[:3] == (prune.WORKING_COPY, copy.name, prune.size_of(str(copy)))
    kept.remove([found[:2]], later, "")
    assert not copy.exists() and kept.find(later, "") == []
