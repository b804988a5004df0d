"""Caches may be lost, damaged, stale or shared: the snapshot is still correct."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from snapshot.project import SnapshotProject, describe

from gofer.snapshot import cachefile
from gofer.snapshot.capture import take_snapshot
from gofer.snapshot.inventory import Inventory
from gofer.storage.file import FileStore

FILES: dict[str, str | bytes] = {f"d{i % 5}/f{i}": f"{i} " * 100 for i in range(60)}


def cache_files(project: SnapshotProject) -> list[Path]:
    return [path for path in project.cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "folder"])
def test_a_damaged_cache_is_ignored(project: SnapshotProject, damage: str) -> None:
    project.write(FILES)
    first = project.take()
    assert len(cache_files(project)) == 4
    for path in cache_files(project):
        data = path.read_bytes()
        path.unlink()
        if damage == "folder":
            path.mkdir()
            continue
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        ruined = {
            "empty": b"",
            "cut": data[:-7],
            "flipped": flipped,
            "foreign": b"gofer folder 0 x 4\n" + data,
        }
        path.write_bytes(ruined[damage])
    again = project.take()
    assert again.id == first.id
    # What the store has is learnt from its own indexes.
    assert again.sent_files == 0
    assert describe(project.restore(again.id)) == describe(project.folder)


def test_a_cache_that_cannot_be_written_costs_time_only(project: SnapshotProject) -> None:
    project.cache.write_text("not a folder")
    project.write(FILES)
    assert project.take().id == project.take().id


def test_the_cache_of_another_folder_is_not_believed(project: SnapshotProject) -> None:
    project.write(FILES)
    project.take()
    other = project.root / "other"
    shutil.copytree(project.folder, other)
    (other / "d0/f0").write_text("other")
    ours = cachefile.path(str(project.cache), "folders", str(project.folder))
    shutil.copy(ours, cachefile.path(str(project.cache), "folders", str(other)))
    assert describe(project.restore(project.take(folder=other).id)) == describe(other)


@pytest.mark.parametrize(
    "lost", ["one pack", "all packs", "cut pack", "manifest", "everything", "damaged manifest"]
)
def test_what_the_store_has_lost_is_sent_again(project: SnapshotProject, lost: str) -> None:
    project.write(FILES)
    project.write({"big": os.urandom(5_000_000)})
    first = project.take()
    packs = [info.key for info in project.store.list("packs") if not info.key.endswith(".idx")]
    if lost == "one pack":
        project.store.delete([packs[0]])
    elif lost == "all packs":
        project.store.delete(packs)
    elif lost == "cut pack":
        project.store.put(packs[0], b"short")
    elif lost == "manifest":
        project.store.delete([f"snapshots/{first.id}"])
    elif lost == "damaged manifest":
        project.store.put(f"snapshots/{first.id}", b"{}")
        project.store.delete([packs[0]])
    else:
        project.store.delete([info.key for info in project.store.list()])
    again = project.take()
    assert again.id == first.id
    assert describe(project.restore(again.id)) == describe(project.folder)
    assert (again.sent_files == 0) == (lost == "manifest")
    assert project.take().sent_files == 0


def test_two_stores_each_get_everything(project: SnapshotProject) -> None:
    project.write(FILES)
    first = project.take()
    other = FileStore(project.root / "other-store", create=True)
    second = take_snapshot(project.folder, other, cache_dir=project.cache)
    assert (second.id, second.sent_files) == (first.id, 60)
    assert take_snapshot(project.folder, other, cache_dir=project.cache).sent_files == 0
    assert project.take().sent_files == 0


def test_another_machine_sends_only_what_the_store_lacks(project: SnapshotProject) -> None:
    project.write(FILES)
    first = project.take()
    there = project.root / "there"
    shutil.copytree(project.folder, there)
    (there / "new").write_text("new")
    second = take_snapshot(there, project.store, cache_dir=project.root / "cache there")
    assert (second.sent_files, second.sent_bytes) == (1, 3)
    assert describe(project.restore(second.id)) == describe(there)
    (there / "new").unlink()
    assert take_snapshot(there, project.store, cache_dir=project.root / "cache there").id == first.id


def test_many_small_packs_are_joined_again(project: SnapshotProject) -> None:
    project.write({f"f{i}": f"{i}" for i in range(60)})
    for i in range(60):
        project.write({f"f{i}": f"changed {i}"})
        last = project.take()
    manifest = json.loads(project.store.get(f"snapshots/{last.id}"))
    assert len(manifest["packs"]) < 40
    assert describe(project.restore(last.id)) == describe(project.folder)


def test_a_damaged_index_in_the_store_is_skipped(project: SnapshotProject) -> None:
    project.write(FILES)
    project.take()
    for info in list(project.store.list("packs")):
        if info.key.endswith(".idx"):
            project.store.put(info.key, b'[["%s",0,1]]' % (b"0" * 64))
    inventory = Inventory(project.store, str(project.root / "fresh"))
    assert inventory.find_new_packs() is False


TAKE = """
import sys
from pathlib import Path
from gofer.snapshot.capture import take_snapshot
from gofer.storage.file import FileStore
print("ready", flush=True)
taken = take_snapshot(Path(sys.argv[1]), FileStore(Path(sys.argv[2])), cache_dir=Path(sys.argv[3]))
print(taken.id, *taken.changed)
"""


def start_take(project: SnapshotProject) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", TAKE, str(project.folder), str(project.store.root), str(project.cache)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_killed_at_any_moment_the_next_take_is_whole(project: SnapshotProject) -> None:
    project.write({f"d{i % 9}/f{i}": os.urandom(20_000) for i in range(400)})
    began = time.perf_counter()
    project.take()
    lasts_s = time.perf_counter() - began
    killed = 0
    for number in range(12):
        shutil.rmtree(project.cache)
        shutil.rmtree(project.store.root)
        project.store.root.mkdir()
        one = start_take(project)
        assert one.stdout and one.stdout.readline() == "ready\n"
        time.sleep(lasts_s * 0.09 * number)
        one.send_signal(signal.SIGKILL)
        one.communicate(timeout=60)
        killed += one.returncode == -signal.SIGKILL
        for info in project.store.list("snapshots"):  # a manifest that is there is whole
            assert describe(project.restore(info.key.rpartition("/")[2])) == describe(project.folder)
        assert describe(project.restore(project.take().id)) == describe(project.folder)
    assert killed


def test_several_at_once_on_one_folder_and_store(project: SnapshotProject) -> None:
    project.write({f"d{i % 9}/f{i}": os.urandom(3000) for i in range(300)})
    for _ in range(3):
        project.write({"d1/f1": os.urandom(10)})
        runs = [start_take(project) for _ in range(4)]
        output = {run.communicate(timeout=60)[0] for run in runs}
        assert output == {f"ready\n{project.take().id}\n"}
    assert describe(project.restore(project.take().id)) == describe(project.folder)
