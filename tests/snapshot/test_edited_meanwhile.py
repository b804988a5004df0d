"""Files edited while they are read: noticed, read again, and never torn without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from snapshot.project import SnapshotProject, describe

from gofer.core.code.packs import CHUNK_BYTES
from gofer.snapshot.capture import take_snapshot
from gofer.snapshot.summary import Snapshot

WRITER = """
import sys
path, size = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
letter = 0
with open(path, "r+b", buffering=0) as file:
    while True:
        letter = (letter + 1) % 26
        file.seek(0)
        file.write(bytes([97 + letter]) * size)
"""


@pytest.mark.parametrize("size", [3_000_000, 2 * CHUNK_BYTES + 7])
def test_a_file_that_never_rests_is_named(project: SnapshotProject, size: int) -> None:
    project.write({"still": "quiet", "sub/busy": b"x" * size})
    argv = [sys.executable, "-c", WRITER, str(project.folder / "sub/busy"), str(size)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
        assert writer.stdout and writer.stdout.readline() == b"ready\n"
        try:
            taken = project.take()
        finally:
            writer.kill()
    assert taken.changed == ("sub/busy",)
    restored = project.restore(taken.id)
    assert (restored / "still").read_text() == "quiet"
    assert (restored / "sub/busy").stat().st_size == size
    after = project.take()  # the writer is gone: now it is read whole
    assert after.changed == ()
    assert describe(project.restore(after.id)) == describe(project.folder)


def take_and_meanwhile(project: SnapshotProject, act: Callable[[], None]) -> Snapshot:
    """Take the project; `act` happens once, after the first megabyte was read."""
    done: list[int] = []

    def progress(so_far: int, total: int) -> None:
        if not done:
            done.append(so_far)
            act()

    return take_snapshot(project.folder, project.store, cache_dir=project.cache, progress=progress)


@pytest.fixture
def large(project: SnapshotProject) -> SnapshotProject:
    """Two folders; the files in the first are read before `progress` is first called."""
    project.write({"a/first": b"1" * 600_000, "a/second": b"2" * 600_000, "b/third": b"3" * 600_000})
    return project


def test_an_edit_after_the_file_was_read_is_in_the_snapshot(large: SnapshotProject) -> None:
    taken = take_and_meanwhile(large, lambda: large.write({"a/first": "edited", "a/second": "too"}))
    assert taken.changed == ("a/first", "a/second")
    assert describe(large.restore(taken.id)) == describe(large.folder)


def test_an_edit_before_the_file_was_read_is_in_the_snapshot(large: SnapshotProject) -> None:
    taken = take_and_meanwhile(large, lambda: large.write({"b/third": "edited"}))
    assert taken.changed == ("b/third",)
    assert describe(large.restore(taken.id)) == describe(large.folder)


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_removed_meanwhile_is_not_in_the_snapshot(large: SnapshotProject, name: str) -> None:
    taken = take_and_meanwhile(large, lambda: os.unlink(large.folder / name))
    assert taken.changed == (name,)
    assert describe(large.restore(taken.id)) == describe(large.folder)
    assert large.take().id == taken.id


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_replaced_meanwhile(large: SnapshotProject, name: str) -> None:
    def replace() -> None:
        (large.folder / "new").write_text("replaced")
        os.replace(large.folder / "new", large.folder / name)

    taken = take_and_meanwhile(large, replace)
    assert taken.changed == (name,)
    assert (large.restore(taken.id) / name).read_text() == "replaced"


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_replaced_by_a_link_meanwhile(large: SnapshotProject, name: str) -> None:
    def replace() -> None:
        os.unlink(large.folder / name)
        os.symlink("/etc/passwd", large.folder / name)

    taken = take_and_meanwhile(large, replace)
    assert taken.changed == (name,)
    assert os.readlink(large.restore(taken.id) / name) == "/etc/passwd"


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_replaced_by_a_pipe_or_a_folder_meanwhile(large: SnapshotProject, name: str) -> None:
    def replace() -> None:
        os.unlink(large.folder / name)
        os.mkfifo(large.folder / name) if name == "a/first" else os.mkdir(large.folder / name)

    taken = take_and_meanwhile(large, replace)
    assert taken.changed == (name,)
    assert not (large.restore(taken.id) / name).exists()
    assert large.take().changed == ()


def test_a_whole_folder_removed_meanwhile(large: SnapshotProject) -> None:
    def remove() -> None:
        os.unlink(large.folder / "b/third")
        os.rmdir(large.folder / "b")

    taken = take_and_meanwhile(large, remove)
    assert taken.changed == ("b/third",)
    assert "b" not in {name for name in os.listdir(large.restore(large.take().id))}
