"""The walk through a local folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transfer.trees import write

from gofer.testing.storage_conformance import ODD_NAMES
from gofer.transfer.result import Notes
from gofer.transfer.walk import FileSelection, Walk


def walk(root: Path, *, follow: bool = True, **choice: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The paths in order, and the messages."""
    notes = Notes()
    found = Walk(os.fsencode(root), FileSelection(**choice), notes.add, follow).entries()
    return [entry.path for entry in found], dict(notes)


def test_the_order_is_that_of_the_bytes_of_the_whole_path(tmp_path: Path) -> None:
    names = ["a", "a-b", "a.b", "b/a/c", "b/a-c", "b/a.c/d", "b/b", "bb", "\udcff", "\uffee", "😀", "é/x"]
    paths, _ = walk(write(tmp_path, dict.fromkeys(names, b"")))
    assert paths == sorted(names, key=os.fsencode)


def test_size_time_and_mode(tmp_path: Path) -> None:
    write(tmp_path, {"plain": b"12345", "program": b""})
    (tmp_path / "program").chmod(0o755)
    os.utime(tmp_path / "plain", ns=(1, 1_234_567_890_123_456_789))
    plain, program = Walk(os.fsencode(tmp_path), FileSelection(), Notes().add, True).entries()
    assert (plain.size, plain.mtime_ns, plain.executable) == (5, 1_234_567_890_123_456_789, False)
    assert plain.recorded
    assert program.executable


def test_odd_names_come_as_they_are(tmp_path: Path) -> None:
    names = [f"{name}/{name}" for name in ODD_NAMES]
    paths, told = walk(write(tmp_path, dict.fromkeys(names, b"")))
    assert paths == sorted(names, key=os.fsencode)
    assert told == {}


def test_files_and_folders_behind_links_are_content(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"deep/file": b"x"})
    inside = write(tmp_path / "inside", {"file": b"y"})
    (inside / "to-file").symlink_to(outside / "deep/file")
    (inside / "to-folder").symlink_to(outside)
    paths, told = walk(inside)
    assert paths == ["file", "to-file", "to-folder/deep/file"]
    assert told == {}


def test_without_following_a_folder_behind_a_link_is_not_entered(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"file": b"x"})
    inside = write(tmp_path / "inside", {"file": b"y"})
    (inside / "to-folder").symlink_to(outside)
    (inside / "to-file").symlink_to(outside / "file")
    assert walk(inside, follow=False)[0] == ["file", "to-file"]


def test_loops_are_named_and_left(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/file": b"x"})
    (tmp_path / "a/b/up").symlink_to("../..")
    (tmp_path / "a/self").symlink_to(".")
    (tmp_path / "a/ring").symlink_to("ring")
    paths, told = walk(tmp_path)
    assert paths == ["a/b/file"]
    assert set(told) == {"a/b/up", "a/self", "a/ring"}
    assert told["a/b/up"] == "is a link to a folder that contains it"
    assert "symbolic links" in told["a/ring"]


def test_what_is_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, {"file": b""}))
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        Path("nowhere").symlink_to("absent")
        Path("null").symlink_to("/dev/null")
        paths, told = walk(tmp_path)
    assert paths == ["file"]
    assert told == {
        "nowhere": "is a link to nothing",
        "null": "is a device",
        "pipe": "is a pipe",
        "socket": "is a socket",
    }


AS_NOBODY = """
import os, sys
from pathlib import Path
from transfer.test_walk import walk
os.chdir(sys.argv[1])  # the folders above need not let others through
os.setgid(65534); os.setuid(65534)
print(walk(Path(".")))
"""


@pytest.mark.root
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"open/file": b"", "shut/file": b""})
    (tmp_path / "shut").chmod(0o700)
    tmp_path.chmod(0o755)
    code = [sys.executable, "-c", AS_NOBODY, str(tmp_path)]
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        code, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60
    )
    assert done.stdout.strip() == str((["open/file"], {"shut": "cannot be read: permission denied"})), (
        done.stderr
    )


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        walk(tmp_path / "absent")


def test_unfinished_downloads_are_no_files(tmp_path: Path) -> None:
    write(tmp_path, {"a/file": b"", "a/.gofer-part-1": b"half"})
    parts: list[str] = []
    found = Walk(os.fsencode(tmp_path), FileSelection(), Notes().add, True, parts.append).entries()
    assert [entry.path for entry in found] == ["a/file"]
    assert parts == ["a/.gofer-part-1"]


def test_patterns_choose(tmp_path: Path) -> None:
    files = dict.fromkeys(["x.jpg", "x.txt", "a/y.jpg", "a/y.txt", "b/a/z.jpg", "cache/q.jpg"], b"")
    write(tmp_path, files)
    assert walk(tmp_path, include=("*.jpg",), exclude=("cache/",))[0] == ["a/y.jpg", "b/a/z.jpg", "x.jpg"]
    assert walk(tmp_path, include=("/a/",))[0] == ["a/y.jpg", "a/y.txt"]
    assert walk(tmp_path, include=("a/",))[0] == ["a/y.jpg", "a/y.txt", "b/a/z.jpg"]
    assert walk(tmp_path, exclude=("*", "!*.txt"))[0] == ["x.txt"]
    assert walk(tmp_path, include=("nothing",))[0] == []


def test_an_excluded_folder_is_not_entered(tmp_path: Path) -> None:
    write(tmp_path, {"kept/file": b""})
    (tmp_path / "left").mkdir()
    (tmp_path / "left/loop").symlink_to(".")
    assert walk(tmp_path, exclude=("left/",)) == (["kept/file"], {})


NAMES = st.lists(st.sampled_from(["a", "b", "a.b", "a-", "ab", "c"]), min_size=1, max_size=3).map("/".join)


@given(
    paths=st.lists(NAMES, max_size=12),
    include=st.lists(NAMES, max_size=2),
    exclude=st.lists(NAMES, max_size=2),
)
def test_a_listing_is_chosen_from_as_a_walk_is(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], include: list[str], exclude: list[str]
) -> None:
    folders = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
    files = sorted(set(paths) - folders, key=os.fsencode)
    root = write(tmp_path_factory.mktemp("tree"), dict.fromkeys(files, b""))
    choice = FileSelection(include, exclude)
    assert walk(root, include=tuple(include), exclude=tuple(exclude))[0] == [
        path for path in files if choice.selects(os.fsencode(path))
    ]
