"""A working copy is compared with what was staged, and put back to it, whatever a command did to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gofer.core.code import trees
from gofer.node.code import working_copy
from gofer.node.code.row_folders import RowFolders


def tree(top: Path) -> dict[str, tuple[int, str]]:
    """Every entry below with its mode and content."""
    found = {}
    for path in sorted(top.rglob("*")):
        mode = path.lstat().st_mode
        text = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else path.read_text()
        found[str(path.relative_to(top))] = (mode, text)
    return found


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    code = tmp_path / "with a space" / "code"
    (code / "package" / "deep").mkdir(parents=True)
    (code / "train.py").write_text("print(1)\n")
    (code / "ü.txt").write_text("ü")
    (code / "package" / "run.sh").write_text("true\n")
    (code / "package" / "run.sh").chmod(0o755)
    (code / "package" / "deep" / "data").write_text("d" * 10)
    (code / "link").symlink_to("train.py")
    for path in (code / "train.py", code / "package" / "deep" / "data"):
        os.utime(path, ns=(10**18, 10**18))
    return code


def damage(copy: Path) -> None:
    (copy / "new").mkdir()
    (copy / "new" / "model.pt").write_text("w")
    (copy / "train.py").write_text("print(2)\n")
    os.utime(copy / "train.py", ns=(10**18, 10**18))
    (copy / "ü.txt").unlink()
    (copy / "package" / "run.sh").chmod(0o600)
    (copy / "link").unlink()
    (copy / "link").mkdir()
    (copy / "link" / "x").write_text("x")
    trees.remove_tree(str(copy / "package" / "deep"))
    (copy / "package" / "deep").write_text("now a file")


def test_changes_are_found_and_put_back(pristine: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    trees.copy_tree(str(pristine), str(copy))
    before = tree(pristine)
    assert tree(copy) == before
    assert (copy / "train.py").stat().st_mtime_ns == 10**18
    known = working_copy.scan(str(copy))
    assert working_copy.compare(known, working_copy.scan(str(copy))) == ([], [], [], [])
    damage(copy)
    changes = working_copy.compare(known, working_copy.scan(str(copy)))
    assert sorted(changes.new) == ["link", "link/x", "new", "new/model.pt", "package/deep"]
    assert sorted(changes.deleted) == ["link", "package/deep", "package/deep/data", "ü.txt"]
    assert sorted(changes.altered) == ["package/run.sh", "train.py"]
    working_copy.put_back(str(copy), str(pristine), changes, known)
    assert tree(copy) == before
    assert known == working_copy.scan(str(copy))


def test_a_change_of_mode_alone_is_no_other_content(pristine: Path) -> None:
    known = working_copy.scan(str(pristine))
    (pristine / "train.py").chmod(0o600)
    found = working_copy.compare(known, working_copy.scan(str(pristine)))
    assert (found.changed, found.altered) == ([], ["train.py"])


def test_the_rows_of_an_agent_find_the_code_as_it_was_sent(pristine: Path) -> None:
    rows = RowFolders()
    rows._pristine = str(pristine)
    rows.abandon()
    rows.prepare()
    first = Path(rows._path)
    for look in (True, False):
        damage(first)
        rows.left(working_copy.compare(rows.contents, working_copy.scan(str(first))) if look else None)
        rows.prepare()
        assert (rows._path, tree(first)) == (str(first), tree(pristine))
    rows.left(None)
    trees.remove_tree(str(first))
    rows.prepare()
    assert tree(first) == tree(pristine)
    rows.abandon()
    rows.prepare()
    assert rows._path != str(first) and tree(Path(rows._path)) == tree(pristine)


def test_a_copy_keeps_holes_and_odd_modes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "closed").mkdir(parents=True)
    (source / "closed" / "secret").write_text("s")
    (source / "closed" / "secret").chmod(0o000)
    with (source / "sparse").open("wb") as file:
        file.write(b"begin")
        file.truncate(3 * 2**30)
        file.seek(2**30)
        file.write(b"middle")
    (source / "closed").chmod(0o555)
    copy = tmp_path / "copy"
    trees.copy_tree(str(source), str(copy))
    sparse = (copy / "sparse").stat()
    assert sparse.st_size == 3 * 2**30 and sparse.st_blocks * 512 < 2**20
    with (copy / "sparse").open("rb") as file:
        file.seek(2**30)
        assert file.read(6) == b"middle"
    assert stat.S_IMODE((copy / "closed").stat().st_mode) == 0o555
    (copy / "closed").chmod(0o000)
    for path in (source, copy):
        trees.remove_tree(str(path))
        assert not path.exists()


def test_a_move_to_another_disk_is_whole_and_takes_the_place_of_what_is_there(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if os.stat(other).st_dev == os.stat(tmp_path).st_dev:
        pytest.fail("/dev/shm is on the disk of the tests")
    source, destination = tmp_path / "a", other / f"gofer-test-{os.getpid()}"
    try:
        for content in ("one", "two"):
            source.mkdir()
            (source / "x").write_text(content)
            trees.remove_tree(str(destination))
            trees.move(str(source), str(destination))
            assert not source.exists() and (destination / "x").read_text() == content
        (tmp_path / "file").write_text("f")
        trees.move(str(tmp_path / "file"), str(destination / "x"))
        assert (destination / "x").read_text() == "f"
        (tmp_path / "file").write_text("instead of a folder there")
        trees.move(str(tmp_path / "file"), str(destination))
        assert destination.read_text() == "instead of a folder there"
        (tmp_path / "file").write_text("in place of a folder")
        (tmp_path / "folder" / "y").mkdir(parents=True)
        trees.move(str(tmp_path / "file"), str(tmp_path / "folder"))
        assert (tmp_path / "folder").read_text() == "in place of a folder"
    finally:
        trees.remove_tree(str(destination))
