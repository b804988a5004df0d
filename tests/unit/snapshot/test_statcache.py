"""The quick way: a tree left alone for a while is known without reading it, and yet nothing is missed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from snapshot.project import SnapshotProject, describe

from gofer.snapshot import statcache
from gofer.snapshot.statcache import guard, pack_signatures, unpack_values
from gofer.snapshot.summary import Snapshot

# Longer than the time within which a file's times are not trusted.
SETTLED_S = 2.1


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


def take_and_count(project: SnapshotProject) -> tuple[Snapshot, int]:
    before = bytes_read()
    taken = project.take()
    return taken, bytes_read() - before


@pytest.fixture
def settled(project: SnapshotProject) -> SnapshotProject:
    """A project whose files have been left alone long enough, with a first snapshot taken."""
    project.write({f"pkg{i % 6}/mod/f{i}.py": os.urandom(40_000) for i in range(60)})
    project.write(
        {".gitignore": "*.log\nbuild/\n", "pkg1/x.log": "log", "build/out": "o", "pkg2/.gitignore": "y"}
    )
    os.symlink("pkg1", project.folder / "link")
    time.sleep(SETTLED_S)
    project.take()
    return project


def test_an_unchanged_tree_is_not_read(settled: SnapshotProject) -> None:
    first, read = take_and_count(settled)
    assert first.bytes > 2_400_000
    assert read < 200_000
    (settled.folder / "pkg3/mod/f3.py").write_bytes(b"new")
    changed, read = take_and_count(settled)
    assert changed.sent_files == 1
    assert read < 300_000
    os.unlink(settled.folder / "pkg3/mod/f3.py")
    settled.take()


def test_a_store_that_lost_everything_gets_it_from_an_unchanged_tree(settled: SnapshotProject) -> None:
    first = settled.take()
    settled.store.delete([info.key for info in settled.store.list()])
    again = settled.take()
    assert (again.id, again.sent_files) == (first.id, 62)
    assert again.has("pkg1/mod/f1.py") and not again.has("pkg1/x.log")
    restored = describe(settled.restore(again.id))
    assert restored == {
        k: v for k, v in describe(settled.folder).items() if not k.startswith(b"build") and k[-4:] != b".log"
    }


def change_rule(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\nbuild/\nf1.py\n")


def drop_rule(root: Path) -> None:
    (root / ".gitignore").unlink()


def deep_rule(root: Path) -> None:
    (root / "pkg2/.gitignore").write_text("f2.py\n!x.log\n")


def own_rule(root: Path) -> None:
    (root / "pkg1/.goferignore").write_text("!x.log\nf1.py\n")


def ignored_becomes_file(root: Path) -> None:
    shutil.rmtree(root / "build")
    (root / "build").write_text("a file in place of the folder")


def file_becomes_folder(root: Path) -> None:
    (root / "pkg1/mod/f13.py").unlink()
    (root / "pkg1/mod/f13.py").mkdir()
    (root / "pkg1/mod/f13.py/inner").write_text("x")


def folder_becomes_file(root: Path) -> None:
    shutil.rmtree(root / "pkg4")
    (root / "pkg4").write_text("x")


def folder_becomes_link(root: Path) -> None:
    shutil.rmtree(root / "pkg0")
    os.symlink("pkg5", root / "pkg0")


def link_changes(root: Path) -> None:
    (root / "link").unlink()
    os.symlink("pkg2", root / "link")


def swap(root: Path) -> None:
    one, two = root / "pkg1/mod/f7.py", root / "pkg1/mod/f19.py"
    one.rename(root / "aside")
    two.rename(one)
    (root / "aside").rename(two)


def executable(root: Path) -> None:
    (root / "pkg1/mod/f25.py").chmod(0o755)


def in_place(root: Path) -> None:
    path = root / "pkg1/mod/f31.py"
    times = path.stat()
    with open(path, "r+b") as file:
        file.write(b"changed")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def new_environment(root: Path) -> None:
    (root / "pkg5/pyvenv.cfg").write_text("home = /usr")


CHANGES: list[Callable[[Path], None]] = [
    change_rule,
    drop_rule,
    deep_rule,
    own_rule,
    ignored_becomes_file,
    file_becomes_folder,
    folder_becomes_file,
    folder_becomes_link,
    link_changes,
    swap,
    executable,
    in_place,
    new_environment,
]


def test_every_change_to_a_settled_tree_is_seen(settled: SnapshotProject) -> None:
    """After each change the quick way must say what a fresh look without any cache says."""
    seen = {settled.take().id}
    for number, change in enumerate(CHANGES):
        change(settled.folder)
        quick = settled.take()
        settled.cache, kept = settled.root / f"empty-{number}", settled.cache
        fresh = settled.take()
        settled.cache = kept
        assert quick.id == fresh.id, change.__name__
        assert quick.id not in seen, change.__name__
        seen.add(quick.id)


def test_signatures_survive_packing_whatever_the_file_system_gives() -> None:
    values = [0, -1, 2**63 - 1, -(2**63), 1]
    assert unpack_values(pack_signatures(values)) == values
    assert len(pack_signatures([2**64 - 1, 5])) == 16
    assert pack_signatures([2**64 - 1]) != pack_signatures([2**64 - 2])


def test_a_signature_is_kept_only_when_its_times_are_old_enough() -> None:
    began = 100_000_000_000
    old = (began - 3_000_000_000, began - 3_000_000_000, 1, 2, 3)
    assert guard(old, began) == old
    for young in ((began, *old[1:]), (old[0], began - 1_000_000_000, *old[2:]), (began + 10**12, *old[1:])):
        assert guard(young, began) == (-1, *young[1:])


def test_two_folders_have_caches_of_their_own(project: SnapshotProject) -> None:
    other = project.root / "other"
    shutil.copytree(project.folder, other)
    project.take()
    project.take(folder=other)
    assert len(list((project.cache / "snapshots/folders").iterdir())) == 2
    assert statcache.load(str(project.cache), "/nowhere").records == {}
