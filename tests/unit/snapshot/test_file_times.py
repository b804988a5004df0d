"""Times and permission bits of a snapshot's files: every name in its place, and nothing believed unseen."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from snapshot.project import LONG_AGO_S, SnapshotProject

from gofer.core.code import file_times
from gofer.errors import SnapshotError
from gofer.node.code.checkout import CheckoutError
from gofer.snapshot.contents import load, restore

KEY = "runs/one/file-times"
NAMES = (
    "b.py",
    "a.py",
    "Z.py",
    "ä.py",
    "\uffee.py",
    "😀.py",
    "sub/x.py",
    "sub.py",
    "sub-x/y.py",
    "sub/deep/z",
)


@pytest.fixture
def project(tmp_path: Path) -> SnapshotProject:
    return SnapshotProject(tmp_path)


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Modification time and permission bits of everything in the folder."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(above, name))
            found[os.path.relpath(os.path.join(above, name), folder)] = (
                status.st_mtime_ns,
                status.st_mode & 0o777,
            )
    return found


def fill(project: SnapshotProject) -> None:
    """Names whose order differs by letters and by bytes, each with a time and a mode of its own."""
    project.write(dict.fromkeys(NAMES, "same"))
    project.write({"one\udcff": "not UTF-8", "empty": "", "big": b"x" * (17 << 20)})
    (project.folder / "link").symlink_to("a.py")
    os.utime(project.folder / "link", ns=(1, 7_000_000_001), follow_symlinks=False)
    for number, path in enumerate(sorted(project.folder.rglob("*"))):
        if not path.is_symlink():
            path.chmod(
                (0o755, 0o700, 0o775)[number % 3] if path.is_dir() else (0o644, 0o600, 0o755)[number % 3]
            )
    for number, path in enumerate(sorted(project.folder.rglob("*"), reverse=True)):
        if not path.is_symlink():
            os.utime(path, ns=(0, (LONG_AGO_S + number) * 1_000_000_000 + number))


def restored(project: SnapshotProject, name: str) -> Path:
    """The project as a run would have it, from a snapshot taken now."""
    taken = project.take()
    project.store.put(KEY, taken.encode_times())
    restore(project.store, taken.id, project.root / name, times_key=KEY)
    return project.root / name


def test_every_file_and_folder_has_its_own_time_and_mode(project: SnapshotProject) -> None:
    fill(project)
    due = stamps(project.folder)
    umask = os.umask(0o002)
    try:
        assert stamps(restored(project, "first")) == due
        assert stamps(restored(project, "from the cache")) == due
        (project.folder / "sub/x.py").write_text("changed a moment ago")
        assert stamps(restored(project, "changed")) == stamps(project.folder)
        os.umask(0o077)
        assert stamps(restored(project, "just after")) == stamps(project.folder)
    finally:
        os.umask(umask)


def test_a_touch_reaches_the_next_run_and_the_snapshot_stays_the_same(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": "2"})
    first = project.take()
    os.utime(project.folder / "a", ns=(0, 5_000_000_005))
    (project.folder / "b").chmod(0o640)
    second = project.take()
    assert first.id == second.id
    assert stamps(restored(project, "out"))["a"] == (5_000_000_005, 0o644)
    assert stamps(restored(project, "again"))["b"][1] == 0o640


def test_sockets_and_folders_that_nobody_may_enter_do_no_harm(project: SnapshotProject) -> None:
    project.write({"a": "1", "locked/b": "2", "z": "3"})
    os.mkfifo(project.folder / "pipe")
    os.utime(project.folder / "a", ns=(0, 1_000_000_000))
    os.utime(project.folder / "z", ns=(0, 2_000_000_000))
    (project.folder / "locked").chmod(0o500)
    found = stamps(restored(project, "out"))
    assert (found["a"][0], found["z"][0], found["locked"][1]) == (1_000_000_000, 2_000_000_000, 0o700)


@pytest.mark.parametrize(
    "forge",
    [
        lambda data: data[:-3],
        lambda data: data[:90],
        lambda data: b"",
        lambda data: data.replace(b"times 1", b"times 9"),
        lambda data: data[:83] + zlib.compress(b"\0" * 19),
        lambda data: data[:83] + zlib.compress(b"\0" * 21),
        lambda data: data[:83] + zlib.compress(b"\0" * (1 << 28)),
        lambda data: data[:19] + b"0" * 64 + data[83:],
    ],
)
def test_a_forged_object_is_refused_and_leaves_nothing(
    project: SnapshotProject, forge: Callable[[bytes], bytes]
) -> None:
    project.write({"a": "1", "b": "2"})
    taken = project.take()
    project.store.put(KEY, forge(taken.encode_times()))
    with pytest.raises((SnapshotError, CheckoutError), match="file times"):
        restore(project.store, taken.id, project.root / "out", times_key=KEY)
    assert not (project.root / "out").exists()


def test_times_and_modes_out_of_bounds_stay_within(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": "2"})
    taken = project.take()
    manifest = load(project.store, taken.id)
    wild = file_times.FileTimes([], [(2**63 - 1, 0o107777), (-(2**63), 0o104755)])
    project.store.put(KEY, file_times.encode(taken.id, wild))
    assert file_times.decode(project.store.get(KEY), manifest).entries[0] == (2**63 - 1, 0o777)
    restore(project.store, taken.id, project.root / "out", times_key=KEY)
    assert os.stat(project.root / "out" / "b").st_mode == 0o100755
