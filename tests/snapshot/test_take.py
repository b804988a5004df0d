"""Taking a snapshot and getting it back: every kind of entry, and only what changed moves."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from snapshot.project import LONG_AGO_S, SnapshotProject, describe

from gofer.core.code.packs import CHUNK_BYTES
from gofer.errors import SnapshotError, StoreError
from gofer.snapshot.capture import take_snapshot
from gofer.snapshot.contents import differences, load
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore

ODD_NAMES = [
    b"with space",
    b" lead",
    b"trail ",
    b"quo'te\"s",
    b"new\nline",
    b"tab\t",
    b"\\back",
    b"*star?",
    b"[set]",
    b"#hash",
    b"!bang",
    b"-dash",
    b"caf\xc3\xa9",
    b"latin\xe9",
    b"\xff\xfe",
    b"\x01ctl",
    b"~",
    b"a" * 255,
    b"...",
    b"%41",
]


def test_every_kind_of_entry_comes_back_byte_for_byte(project: SnapshotProject) -> None:
    root = os.fsencode(project.folder)
    for name in ODD_NAMES:
        with open(os.path.join(root, name), "wb") as file:
            file.write(b"content of " + name)
        os.makedirs(os.path.join(root, b"in", name))
        with open(os.path.join(root, b"in", name, b"x"), "wb") as file:
            file.write(b"\0" + name)
    (project.folder / "run.sh").write_text("#!/bin/sh\n")
    (project.folder / "run.sh").chmod(0o755)
    (project.folder / "void").write_bytes(b"")
    (project.folder / "hollow" / "deeper").mkdir(parents=True)
    os.link(project.folder / "run.sh", project.folder / "same.sh")
    for name, target in [
        (b"here", b"run.sh"),
        (b"dangling", b"nowhere/at all"),
        (b"outside", b"/etc/passwd"),
        (b"up", b"../../x"),
        (b"odd", b"latin\xe9"),
        (b"loop", b"loop"),
    ]:
        os.symlink(target, os.path.join(root, name))
    os.symlink("in", project.folder / "folder-link")
    taken = project.take()
    assert describe(project.restore(taken.id)) == describe(project.folder)
    assert taken.changed == () and taken.skipped == ()


def test_unchanged_sends_nothing_and_one_change_sends_one_file(project: SnapshotProject) -> None:
    project.write({f"d{i % 7}/f{i}.py": f"print({i})\n" * 50 for i in range(200)})
    first = project.take()
    again = project.take()
    assert (first.sent_files, first.files) == (200, 200)
    assert (again.id, again.sent_files, again.sent_bytes) == (first.id, 0, 0)
    project.write({"d3/f3.py": "changed\n"})
    changed = project.take()
    assert changed.id != first.id
    assert (changed.sent_files, changed.sent_bytes) == (1, 8)
    assert differences(project.store, first.id, changed.id) == ((), (), ("d3/f3.py",))
    assert describe(project.restore(changed.id)) == describe(project.folder)
    assert (project.restore(first.id) / "d3/f3.py").read_text() == "print(3)\n" * 50


def test_what_a_small_change_adds_to_the_store_is_small(project: SnapshotProject) -> None:
    project.write({f"d{i % 40}/f{i}.py": f"{i}\n" * 10 for i in range(2000)})
    project.take()
    before = sum(info.size for info in project.store.list())
    project.write({"d3/f3.py": "x"})
    project.take()
    # The listing of one folder and the names of the others: nothing that grows with the number of files.
    assert sum(info.size for info in project.store.list()) - before < 15_000


def test_added_removed_and_renamed_files_are_seen(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": "2", "sub/c": "3"})
    first = project.take()
    (project.folder / "a").rename(project.folder / "sub/a")
    (project.folder / "b").unlink()
    project.write({"new": "4"})
    second = project.take()
    assert differences(project.store, first.id, second.id) == (("new", "sub/a"), ("a", "b"), ())
    assert second.sent_files == 1
    shutil.rmtree(project.folder / "sub")
    assert project.taken() == ["new"]


def test_the_execute_bit_and_a_link_target_are_part_of_the_id(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    os.symlink("a", project.folder / "l")
    ids = [project.take().id]
    (project.folder / "a").chmod(0o755)
    ids.append(project.take().id)
    (project.folder / "l").unlink()
    os.symlink("b", project.folder / "l")
    ids.append(project.take().id)
    (project.folder / "empty").mkdir()
    ids.append(project.take().id)
    assert len(set(ids)) == 4


def test_the_id_depends_on_nothing_but_names_and_contents(project: SnapshotProject) -> None:
    project.write({"a": "1", "sub/b": "2", "sub/é": "3"})
    elsewhere = project.root / "elsewhere"
    shutil.copytree(project.folder, elsewhere)
    os.utime(elsewhere / "a", (1, 1))
    (elsewhere / "a").chmod(0o600)
    other = take_snapshot(elsewhere, MemoryStore(), cache_dir=project.root / "other-cache")
    assert other.id == project.take().id


def test_a_change_that_keeps_size_and_mtime_is_seen(project: SnapshotProject) -> None:
    project.write({"a": "1111", "b": "x"})
    first = project.take()
    project.write({"a": "2222"})
    assert (project.folder / "a").stat().st_mtime == LONG_AGO_S
    assert project.take().id != first.id


def test_a_change_in_the_same_tick_as_the_last_walk_is_seen(project: SnapshotProject) -> None:
    """Times may be coarse: what was written about when it was read is read again."""
    ids = set()
    for round_number in range(20):
        project.write({"a": f"{round_number:04}"}, old=False)
        ids.add(project.take().id)
    assert len(ids) == 20


def test_equal_contents_are_sent_once(project: SnapshotProject) -> None:
    project.write({f"copy{i}": "same" * 1000 for i in range(50)})
    taken = project.take()
    assert (taken.files, taken.sent_files, taken.sent_bytes) == (50, 1, 4000)


def test_a_file_of_several_pieces(project: SnapshotProject) -> None:
    piece = os.urandom(CHUNK_BYTES)
    project.write({"big": piece + piece + b"end", "exact": piece, "small": "s"})
    taken = project.take()
    assert taken.sent_bytes == CHUNK_BYTES + 4  # every piece once
    assert describe(project.restore(taken.id)) == describe(project.folder)
    with open(project.folder / "big", "r+b") as file:
        file.seek(2 * CHUNK_BYTES)
        file.write(b"END")
    assert project.take().sent_bytes == 3


def test_an_empty_folder_is_a_snapshot_too(project: SnapshotProject) -> None:
    taken = project.take()
    assert taken.files == 0
    assert describe(project.restore(taken.id)) == {}


def test_what_is_no_file_is_left_out_and_named(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    os.mkfifo(project.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(project.folder / "sock"))
        for _ in range(2):  # also when nothing has changed
            assert sorted(project.take().skipped) == [("pipe", "a pipe"), ("sock", "a socket")]
    assert project.taken() == ["a"]


def test_the_biggest_files_are_named(project: SnapshotProject) -> None:
    project.write({f"d{i % 3}/f{i}": "x" * i * 10 for i in range(20)})
    for _ in range(2):
        assert project.take().biggest == tuple((f"d{i % 3}/f{i}", i * 10) for i in (19, 18, 17, 16, 15))


def test_the_biggest_folders_are_named_down_to_the_one_that_has_nearly_all(project: SnapshotProject) -> None:
    project.write({f"src/models/deep/f{i}": "x" * 100 for i in range(20)})
    project.write({"src/a": "x", "data/one/f": "x" * 500, "data/two/f": "x" * 400, "top": "x" * 9000})
    for _ in range(2):
        assert project.take().biggest_folders == (("src/models/deep", 2000), ("data", 900))


def test_progress_ends_at_the_total(project: SnapshotProject) -> None:
    project.write({f"f{i}": os.urandom(700_000) for i in range(4)})
    steps: list[tuple[int, int]] = []
    take_snapshot(
        project.folder, project.store, cache_dir=project.cache, progress=lambda *step: steps.append(step)
    )
    assert steps[-1] == (2_800_000, 2_800_000)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps) and len(steps) > 2


def test_progress_comes_before_a_large_file_is_read_whole(project: SnapshotProject) -> None:
    size = 40 * 1024 * 1024
    with (project.folder / "large").open("wb") as file:
        file.truncate(size)
    steps: list[int] = []
    take_snapshot(
        project.folder, project.store, cache_dir=project.cache, progress=lambda done, _: steps.append(done)
    )
    assert 0 < steps[0] < size
    assert steps[-1] == size


def test_has_knows_files_links_and_folders(project: SnapshotProject) -> None:
    project.write({"src/train.py": "", "src/é.py": "", "skip.pyc": ""})
    os.symlink("src", project.folder / "code")
    for _ in range(2):
        taken = project.take()
        assert all(
            taken.has(path) for path in ("src/train.py", "src/é.py", "src", ".", "code/train.py", "code")
        )
        assert not any(taken.has(path) for path in ("skip.pyc", "src/none.py", "none/x/y", "src/train.py/x"))


@pytest.mark.parametrize("folder", ["/", "~", "~/.."])
def test_the_home_folder_is_refused(project: SnapshotProject, folder: str) -> None:
    with pytest.raises(SnapshotError, match="not a code folder") as caught:
        take_snapshot(Path(os.path.expanduser(folder)), project.store, cache_dir=project.cache)
    assert caught.value.hint


def test_a_missing_folder_is_refused(project: SnapshotProject) -> None:
    with pytest.raises(SnapshotError, match="no folder"):
        take_snapshot(project.root / "none", project.store, cache_dir=project.cache)


UNREADABLE = """
import sys
from pathlib import Path
from gofer.errors import SnapshotError
from gofer.snapshot.capture import take_snapshot
from gofer.storage.memory import MemoryStore
try:
    take_snapshot(Path(sys.argv[1]), MemoryStore(), cache_dir=Path(sys.argv[2]))
except SnapshotError as error:
    print(error.message, error.hint, sep="\\n")
"""


def without_privileges() -> None:
    """Root reads everything; after this and an exec it no longer does."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [("secret file", "file", "/sub/secret\\ file"), ("closed", "folder", "/sub/closed/")],
)
def test_what_cannot_be_read_is_named_with_the_line_that_leaves_it_out(
    project: SnapshotProject, name: str, kind: str, line: str
) -> None:
    path = project.folder / "sub" / name
    project.write({"sub/ok": ""})
    path.mkdir() if kind == "folder" else path.write_text("x")
    path.chmod(0)
    asked = [sys.executable, "-c", UNREADABLE, str(project.folder), str(project.cache)]
    output = subprocess.run(
        asked, capture_output=True, text=True, check=True, timeout=60, preexec_fn=without_privileges
    ).stdout
    path.chmod(0o755)
    assert f"cannot read the {kind} `{path}`: Permission denied" in output
    assert f"`{line}`" in output
    project.write({".goferignore": line})
    assert project.taken() == [".goferignore", "sub/ok"]


def test_a_store_and_a_cache_inside_the_code_are_left_out(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    store = FileStore(project.folder / "my store", create=True)
    cache = project.folder / "cache"
    ids = {take_snapshot(project.folder, store, cache_dir=cache).id for _ in range(3)}
    assert len(ids) == 1
    assert [entry.path for entry in load(store, ids.pop()).entries] == [b"a"]


def test_a_store_that_fails_says_so_and_the_next_take_works(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": os.urandom(5_000_000)})
    hidden = project.root / "hidden"
    os.rename(project.store.root, hidden)
    with pytest.raises(StoreError):
        project.take()
    os.rename(hidden, project.store.root)
    assert describe(project.restore(project.take().id)) == describe(project.folder)


def test_reading_a_snapshot_that_is_not_there(project: SnapshotProject) -> None:
    with pytest.raises(SnapshotError, match="cannot read the snapshot"):
        load(project.store, "0" * 64)
    with pytest.raises(SnapshotError, match="cannot read the snapshot"):
        project.restore("0" * 64)
