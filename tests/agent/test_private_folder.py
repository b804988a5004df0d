"""Folders of one user at any umask, and folders that belong to somebody else."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from home import Home

from gofer.core import private_folder
from gofer.core.private_folder import ForeignFolder
from gofer.errors import CheckFailed
from gofer.node.slurm.handoff import Handoff
from gofer.remote.local_slurm import LocalSlurm
from gofer.remote.slurm import submission
from gofer.snapshot import cachefile
from gofer.transport import bundle
from gofer.transport.shared_connection import sockets_folder

EVE = 61001


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@contextmanager
def umask(number: int) -> Iterator[None]:
    old = os.umask(number)
    try:
        yield
    finally:
        os.umask(old)


def open_folders(top: Path) -> dict[str, str]:
    """The folders from `top` down that others can write."""
    found = [top, *(path for path in top.rglob("*") if path.is_dir() and not path.is_symlink())]
    return {str(path.relative_to(top)): oct(mode(path)) for path in found if mode(path) & 0o022}


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
    queue_home = home.path / "engine"
    folders = [home.path, queue_home, *(path for path in queue_home.iterdir() if path.is_dir())]
    assert {str(path): oct(mode(path)) for path in folders if mode(path) != 0o700} == {}


@pytest.mark.parametrize("number", [0o000, 0o002])
def test_no_folder_that_gofer_makes_in_a_home_can_be_written_by_others(home: Home, number: int) -> None:
    """With the right to rename `~/.config/gofer` or `~/.cache/gofer`, another user can run code."""
    user = home.root / "user"
    del home.environ["GOFER_HOME"]
    home.path = user / ".local" / "state" / "gofer"  # whose supervisor ends with the test
    user.chmod(0o700)
    with umask(number):
        home.gofer("submit", "--wait", "true")
        home.gofer("q", "last")
        words = home.argv("secret", "set", "token")
        secret = subprocess.run(words, env=home.environ, input=b"x", check=False)
    assert secret.returncode == 0
    folders = open_folders(user)
    # In these, others cannot come: the folder above is closed.
    closed = (".local/share/gofer/store/", ".local/state/gofer/")
    assert {path: text for path, text in folders.items() if not path.startswith(closed)} == {}
    assert mode(user / ".local/share/gofer/store") == mode(user / ".local/state/gofer") == 0o700


def test_folders_that_an_earlier_version_left_open_are_closed(home: Home) -> None:
    user = home.root / "user"
    del home.environ["GOFER_HOME"]
    names = (".config/gofer", ".cache/gofer", ".local/state/gofer", ".local/share/gofer")
    for name in names:
        (user / name).mkdir(parents=True)
        (user / name).chmod(0o777)
    home.gofer("config", "show")
    assert {name: oct(mode(user / name)) for name in names if mode(user / name) & 0o022} == {}


@pytest.mark.root
def test_a_cache_folder_of_another_user_is_refused(home: Home) -> None:
    cache = home.path / "cache"
    cache.mkdir(parents=True)
    os.chown(cache, EVE, EVE)
    refused = home.gofer("submit", "true", status=None)
    assert refused.status != 0
    assert f"{cache} belongs to user {EVE}" in refused.err


@pytest.mark.root
def test_a_cache_that_another_user_wrote_is_not_read(tmp_path: Path) -> None:
    """Its format is Python's own, which must never be read from anybody else."""
    file = str(tmp_path / "cache")
    cachefile.save(file, "kind", [1])
    assert cachefile.load(file, "kind") == [1]
    os.chown(file, EVE, EVE)
    assert cachefile.load(file, "kind") is None


def greeting(folder: Path, *, status: int | None) -> subprocess.CompletedProcess[bytes]:
    """The command that runs over SSH, here without SSH: it only reports that the agent is missing."""
    words = bundle.bootstrap_command(sys.executable, str(folder), "nonce")
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (b"nonce needed" in done.stdout) == (status is None), done
    return done


@pytest.mark.parametrize("before", [None, 0o777])
def test_the_folder_on_an_ssh_machine_is_closed_to_other_writers(tmp_path: Path, before: int | None) -> None:
    folder = tmp_path / "remote"
    if before is not None:
        (folder / "agent").mkdir(parents=True)
        folder.chmod(before)
        (folder / "agent").chmod(before)
    with umask(0o000):
        greeting(folder, status=None)
    assert open_folders(folder) == {}


@pytest.mark.root
@pytest.mark.parametrize("theirs", ["remote", "remote/agent"])
def test_the_folder_of_another_user_on_an_ssh_machine_is_refused(tmp_path: Path, theirs: str) -> None:
    (tmp_path / "remote" / "agent").mkdir(parents=True)
    os.chown(tmp_path / theirs, EVE, EVE)
    done = greeting(tmp_path / "remote", status=1)
    assert done.returncode == 1
    assert f"{tmp_path / theirs} belongs to user {EVE}".encode() in done.stderr


def test_the_agent_of_a_slurm_site_is_closed_to_other_writers(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as bundle:
        bundle.writestr("gofer/__init__.py", "")
    with umask(0o000):
        LocalSlurm(str(tmp_path / "top")).install_agent("a1", data.getvalue())
    assert (tmp_path / "top/agent/a1/gofer/__init__.py").exists()
    assert mode(tmp_path / "top/agent") == 0o700
    assert mode(tmp_path / "top") & 0o022 == 0


@pytest.mark.root
def test_sockets_of_ssh_never_lie_in_a_folder_of_another_user() -> None:
    with tempfile.TemporaryDirectory(prefix="gofer-", dir="/tmp") as runtime:  # its name must be short
        folder = Path(runtime) / "gofer"
        folder.mkdir(mode=0o700)
        assert sockets_folder({"XDG_RUNTIME_DIR": runtime}) == folder
        os.chown(folder, EVE, EVE)
        with pytest.raises(CheckFailed, match="can be used by other users"):
            sockets_folder({"XDG_RUNTIME_DIR": runtime})


@pytest.mark.root
def test_the_lock_beside_a_disk_without_locks_is_in_a_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that another user put under the name of a lock is not followed."""
    shared, handoff, target = tmp_path / "tmp", tmp_path / "run", tmp_path / "target"
    shared.mkdir()
    handoff.mkdir()
    target.write_text("mine")
    (shared / f"gofer-{os.getuid()}-run.lock").symlink_to(target)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    lock, refused = fcntl.flock, []

    def lock_here_only(file: int | IO[str], how: int) -> None:
        number = file if isinstance(file, int) else file.fileno()
        if os.readlink(f"/proc/self/fd/{number}").startswith(f"{handoff}/"):
            refused.append(number)
            raise OSError(errno.ENOLCK, "no locks")
        lock(number, how)

    monkeypatch.setattr(fcntl, "flock", lock_here_only)
    locks = shared / f"gofer-{os.getuid()}-locks"
    with (
        submission._locked(Handoff(str(handoff))),
        (locks / "run").open() as file,
        pytest.raises(BlockingIOError),
    ):
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert refused
    assert target.read_text() == "mine"
    assert mode(locks) == 0o700
    os.chown(locks, EVE, EVE)
    with pytest.raises(ForeignFolder), submission._locked(Handoff(str(handoff))):
        pass
