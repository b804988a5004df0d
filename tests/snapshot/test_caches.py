"""Caches may be lost, damaged, stale or shared: the snapshot is right all the same."""

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
from snapshot.desk import Desk, describe

from gofer.snapshot import cachefile, take
from gofer.snapshot.inventory import Inventory
from gofer.storage.file import FileStore

FILES: dict[str, str | bytes] = {f"d{i % 5}/f{i}": f"{i} " * 100 for i in range(60)}


def cache_files(desk: Desk) -> list[Path]:
    return [path for path in desk.cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "folder"])
def test_a_damaged_cache_is_as_good_as_none(desk: Desk, damage: str) -> None:
    desk.write(FILES)
    first = desk.take()
    assert len(cache_files(desk)) == 4
    for path in cache_files(desk):
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
    again = desk.take()
    assert again.id == first.id
    # What the store has is learnt from its own indexes.
    assert again.sent_files == 0
    assert describe(desk.restore(again.id)) == describe(desk.project)


def test_a_cache_that_cannot_be_written_costs_time_only(desk: Desk) -> None:
    desk.cache.write_text("not a folder")
    desk.write(FILES)
    assert desk.take().id == desk.take().id


def test_the_cache_of_another_folder_is_not_believed(desk: Desk) -> None:
    desk.write(FILES)
    desk.take()
    other = desk.place / "other"
    shutil.copytree(desk.project, other)
    (other / "d0/f0").write_text("other")
    ours = cachefile.path(str(desk.cache), "folders", str(desk.project))
    shutil.copy(ours, cachefile.path(str(desk.cache), "folders", str(other)))
    assert describe(desk.restore(desk.take(folder=other).id)) == describe(other)


@pytest.mark.parametrize(
    "lost", ["one pack", "all packs", "cut pack", "manifest", "everything", "damaged manifest"]
)
def test_what_the_store_has_lost_is_sent_again(desk: Desk, lost: str) -> None:
    desk.write(FILES)
    desk.write({"big": os.urandom(5_000_000)})
    first = desk.take()
    packs = [info.key for info in desk.store.list("packs") if not info.key.endswith(".idx")]
    if lost == "one pack":
        desk.store.delete([packs[0]])
    elif lost == "all packs":
        desk.store.delete(packs)
    elif lost == "cut pack":
        desk.store.put(packs[0], b"short")
    elif lost == "manifest":
        desk.store.delete([f"snapshots/{first.id}"])
    elif lost == "damaged manifest":
        desk.store.put(f"snapshots/{first.id}", b"{}")
        desk.store.delete([packs[0]])
    else:
        desk.store.delete([info.key for info in desk.store.list()])
    again = desk.take()
    assert again.id == first.id
    assert describe(desk.restore(again.id)) == describe(desk.project)
    assert (again.sent_files == 0) == (lost == "manifest")
    assert desk.take().sent_files == 0


def test_two_stores_each_get_everything(desk: Desk) -> None:
    desk.write(FILES)
    first = desk.take()
    other = FileStore(desk.place / "other-store", create=True)
    second = take(desk.project, other, cache_dir=desk.cache)
    assert (second.id, second.sent_files) == (first.id, 60)
    assert take(desk.project, other, cache_dir=desk.cache).sent_files == 0
    assert desk.take().sent_files == 0


def test_another_machine_sends_only_what_the_store_lacks(desk: Desk) -> None:
    desk.write(FILES)
    first = desk.take()
    there = desk.place / "there"
    shutil.copytree(desk.project, there)
    (there / "new").write_text("new")
    second = take(there, desk.store, cache_dir=desk.place / "cache there")
    assert (second.sent_files, second.sent_bytes) == (1, 3)
    assert describe(desk.restore(second.id)) == describe(there)
    (there / "new").unlink()
    assert take(there, desk.store, cache_dir=desk.place / "cache there").id == first.id


def test_many_small_packs_are_joined_again(desk: Desk) -> None:
    desk.write({f"f{i}": f"{i}" for i in range(60)})
    for i in range(60):
        desk.write({f"f{i}": f"changed {i}"})
        last = desk.take()
    manifest = json.loads(desk.store.get(f"snapshots/{last.id}"))
    assert len(manifest["packs"]) < 40
    assert describe(desk.restore(last.id)) == describe(desk.project)


def test_a_damaged_index_in_the_store_is_passed_over(desk: Desk) -> None:
    desk.write(FILES)
    desk.take()
    for info in list(desk.store.list("packs")):
        if info.key.endswith(".idx"):
            desk.store.put(info.key, b'[["%s",0,1]]' % (b"0" * 64))
    inventory = Inventory(desk.store, str(desk.place / "fresh"))
    assert inventory.learn() is False


TAKE = """
import sys
from pathlib import Path
from gofer.snapshot import take
from gofer.storage.file import FileStore
print("ready", flush=True)
taken = take(Path(sys.argv[1]), FileStore(Path(sys.argv[2])), cache_dir=Path(sys.argv[3]))
print(taken.id, *taken.changed)
"""


def start_take(desk: Desk) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", TAKE, str(desk.project), str(desk.store.root), str(desk.cache)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_killed_at_any_moment_the_next_take_is_whole(desk: Desk) -> None:
    desk.write({f"d{i % 9}/f{i}": os.urandom(20_000) for i in range(400)})
    began = time.perf_counter()
    desk.take()
    lasts_s = time.perf_counter() - began
    killed = 0
    for number in range(12):
        shutil.rmtree(desk.cache)
        shutil.rmtree(desk.store.root)
        desk.store.root.mkdir()
        one = start_take(desk)
        assert one.stdout and one.stdout.readline() == "ready\n"
        time.sleep(lasts_s * 0.09 * number)
        one.send_signal(signal.SIGKILL)
        one.communicate(timeout=60)
        killed += one.returncode == -signal.SIGKILL
        for info in desk.store.list("snapshots"):  # a manifest that is there is whole
            assert describe(desk.restore(info.key.rpartition("/")[2])) == describe(desk.project)
        assert describe(desk.restore(desk.take().id)) == describe(desk.project)
    assert killed


def test_several_at_once_on_one_folder_and_store(desk: Desk) -> None:
    desk.write({f"d{i % 9}/f{i}": os.urandom(3000) for i in range(300)})
    for _ in range(3):
        desk.write({"d1/f1": os.urandom(10)})
        runs = [start_take(desk) for _ in range(4)]
        said = {run.communicate(timeout=60)[0] for run in runs}
        assert said == {f"ready\n{desk.take().id}\n"}
    assert describe(desk.restore(desk.take().id)) == describe(desk.project)
