"""Files edited while they are read: noticed, read again, and never torn without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from snapshot.desk import Desk, describe

from gofer.core.packs import CHUNK_BYTES
from gofer.snapshot import Snapshot, take

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
def test_a_file_that_never_rests_is_named(desk: Desk, size: int) -> None:
    desk.write({"still": "quiet", "sub/busy": b"x" * size})
    argv = [sys.executable, "-c", WRITER, str(desk.project / "sub/busy"), str(size)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
        assert writer.stdout and writer.stdout.readline() == b"ready\n"
        try:
            taken = desk.take()
        finally:
            writer.kill()
    assert taken.changed == ("sub/busy",)
    restored = desk.restore(taken.id)
    assert (restored / "still").read_text() == "quiet"
    assert (restored / "sub/busy").stat().st_size == size
    after = desk.take()  # the writer is gone: now it is read whole
    assert after.changed == ()
    assert describe(desk.restore(after.id)) == describe(desk.project)


def take_and_meanwhile(desk: Desk, act: Callable[[], None]) -> Snapshot:
    """Take the project; `act` happens once, after the first megabyte was read."""
    done: list[int] = []

    def progress(so_far: int, total: int) -> None:
        if not done:
            done.append(so_far)
            act()

    return take(desk.project, desk.store, cache_dir=desk.cache, progress=progress)


@pytest.fixture
def large(desk: Desk) -> Desk:
    """Two folders; the files in the first are read before `progress` is first called."""
    desk.write({"a/first": b"1" * 600_000, "a/second": b"2" * 600_000, "b/third": b"3" * 600_000})
    return desk


def test_an_edit_after_the_file_was_read_is_in_the_snapshot(large: Desk) -> None:
    taken = take_and_meanwhile(large, lambda: large.write({"a/first": "edited", "a/second": "too"}))
    assert taken.changed == ("a/first", "a/second")
    assert describe(large.restore(taken.id)) == describe(large.project)


def test_an_edit_before_the_file_was_read_is_in_the_snapshot(large: Desk) -> None:
    taken = take_and_meanwhile(large, lambda: large.write({"b/third": "edited"}))
    assert taken.changed == ("b/third",)
    assert describe(large.restore(taken.id)) == describe(large.project)


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_removed_meanwhile_is_not_in_the_snapshot(large: Desk, name: str) -> None:
    taken = take_and_meanwhile(large, lambda: os.unlink(large.project / name))
    assert taken.changed == (name,)
    assert describe(large.restore(taken.id)) == describe(large.project)
    assert large.take().id == taken.id


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_replaced_meanwhile(large: Desk, name: str) -> None:
    def replace() -> None:
        (large.project / "new").write_text("replaced")
        os.replace(large.project / "new", large.project / name)

    taken = take_and_meanwhile(large, replace)
    assert taken.changed == (name,)
    assert (large.restore(taken.id) / name).read_text() == "replaced"


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_replaced_by_a_link_meanwhile(large: Desk, name: str) -> None:
    def replace() -> None:
        os.unlink(large.project / name)
        os.symlink("/etc/passwd", large.project / name)

    taken = take_and_meanwhile(large, replace)
    assert taken.changed == (name,)
    assert os.readlink(large.restore(taken.id) / name) == "/etc/passwd"


@pytest.mark.parametrize("name", ["a/first", "b/third"])
def test_a_file_replaced_by_a_pipe_or_a_folder_meanwhile(large: Desk, name: str) -> None:
    def replace() -> None:
        os.unlink(large.project / name)
        os.mkfifo(large.project / name) if name == "a/first" else os.mkdir(large.project / name)

    taken = take_and_meanwhile(large, replace)
    assert taken.changed == (name,)
    assert not (large.restore(taken.id) / name).exists()
    assert large.take().changed == ()


def test_a_whole_folder_removed_meanwhile(large: Desk) -> None:
    def remove() -> None:
        os.unlink(large.project / "b/third")
        os.rmdir(large.project / "b")

    taken = take_and_meanwhile(large, remove)
    assert taken.changed == ("b/third",)
    assert "b" not in {name for name in os.listdir(large.restore(large.take().id))}
