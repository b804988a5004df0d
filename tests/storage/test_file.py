"""What the file store does beyond the contract: durability, races of processes, odd things in its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gofer.errors import KeyExists, KeyNotFound, StoreError
from gofer.storage.base import Appends, OnDisk
from gofer.storage.file import TEMP_FOLDER, FileStore


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store", create=True)


def temporaries(store: FileStore) -> list[Path]:
    return list((store.root / TEMP_FOLDER).iterdir())


def python(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_objects_are_files_that_grow(store: FileStore) -> None:
    assert isinstance(store, Appends)
    assert isinstance(store, OnDisk)
    store.put("runs/r/run.json", b"{}")
    assert store.path("runs/r/run.json").read_bytes() == b"{}"
    (store.root / "runs/r/outputs").mkdir()
    (store.root / "runs/r/outputs/model").write_bytes(b"left by a command")
    assert store.get("runs/r/outputs/model") == b"left by a command"


RACE = """
import sys
from pathlib import Path
from gofer.errors import KeyExists
from gofer.storage.file import FileStore
store = FileStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
won = 0
for i in range(100):
    try:
        store.put(f"deep/{i}/key", sys.argv[2].encode(), new=True)
    except KeyExists:
        continue
    won += 1
print(won)
"""


def test_put_new_has_one_winner_between_processes(store: FileStore) -> None:
    racers = [python(RACE, str(store.root), str(i)) for i in range(4)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == b"ready\n"
    wins = [int(racer.communicate(b"go\n")[0]) for racer in racers]
    contents = [store.get(info.key) for info in store.list()]
    assert [contents.count(b"%d" % i) for i in range(4)] == wins
    assert sum(wins) == 100
    assert temporaries(store) == []


KILLED = """
import sys
from pathlib import Path
from gofer.storage.file import FileStore
store = FileStore(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    for digit in b"0123":
        store.put("k", bytes([digit]) * 3_000_000)
"""


def test_a_killed_writer_leaves_the_old_or_the_new_object(store: FileStore) -> None:
    wholes = {bytes([digit]) * 3_000_000 for digit in b"0123"}
    store.put("k", min(wholes))
    for i in range(10):
        writer = python(KILLED, str(store.root))
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.003 * i)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert store.get("k") in wholes
        assert [info.key for info in store.list()] == ["k"]


def test_what_killed_writers_left_goes_after_a_day(store: FileStore) -> None:
    store.put("k", b"x")
    left = store.root / TEMP_FOLDER / "left"
    left.write_bytes(b"half")
    FileStore(store.root, create=True)
    assert left.exists()
    os.utime(left, (0, time.time() - 2 * 86400))
    FileStore(store.root, create=True)
    assert not left.exists()


def test_unfinished_writes_cannot_be_reached_by_key(store: FileStore) -> None:
    store.put("k", b"x")
    assert list(store.list_folders()) == []
    with pytest.raises(StoreError, match="unfinished"):
        store.put(f"{TEMP_FOLDER}/x", b"")
    store.put(f"sub/{TEMP_FOLDER}/x", b"only the folder at the top is ours")
    assert [info.key for info in store.list()] == ["k", f"sub/{TEMP_FOLDER}/x"]


def test_links_and_pipes(store: FileStore, tmp_path: Path) -> None:
    store.put("outputs/real", b"data")
    folder = store.root / "outputs"
    (folder / "link").symlink_to("real")
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    assert [info.key for info in store.list()] == ["outputs/link", "outputs/real"]
    assert list(store.list_folders("outputs")) == []
    assert store.get("outputs/link") == b"data"
    for key in ("outputs/broken", "outputs/pipe", "outputs/loop"):
        with pytest.raises(KeyNotFound):
            store.get(key)


def test_deleting_and_writing_in_one_folder_at_once(store: FileStore) -> None:
    code = """
import sys
from pathlib import Path
from gofer.storage.file import FileStore
store = FileStore(Path(sys.argv[1]))
for i in range(150):
    store.put(f"a/b/c/{sys.argv[2]}", b"x")
    store.delete([f"a/b/c/{sys.argv[2]}"])
"""
    both = [python(code, str(store.root), name) for name in ("1", "2")]
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    assert list(store.list_folders()) == []


def test_a_store_that_disappears_is_not_created_again(store: FileStore) -> None:
    store.put("k", b"x")
    store.root.rename(store.root.with_name("unmounted"))
    for act in (
        lambda: store.put("a/k", b"x"),
        lambda: store.append("a/k", b"x"),
        lambda: list(store.list()),
        lambda: list(store.list_folders("a")),
    ):
        with pytest.raises(StoreError, match="is not there"):
            act()
    with pytest.raises(KeyNotFound):
        store.get("k")
    assert not store.root.exists()


def test_an_object_cannot_be_a_folder_too(store: FileStore) -> None:
    store.put("a/b", b"x")
    with pytest.raises(StoreError, match="a directory"):
        store.put("a", b"x")
    with pytest.raises(StoreError, match="not a directory"):
        store.put("a/b/c", b"x")
    with pytest.raises(KeyExists):
        store.put("a", b"x", new=True)
    assert [info.key for info in store.list()] == ["a/b"]
    assert temporaries(store) == []


def test_a_name_too_long_is_an_error_not_a_crash(store: FileStore) -> None:
    with pytest.raises(StoreError, match="too long"):
        store.put("n" * 300, b"x")
    with pytest.raises(StoreError, match="too long"):
        store.head("n" * 300)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.root
def test_a_full_disk(small_disk: Path) -> None:
    store = FileStore(small_disk)
    store.put("k", b"old")
    with pytest.raises(StoreError, match="no space left") as caught:
        store.put("k", b"x" * 2_000_000)
    assert store.url in caught.value.message
    assert store.get("k") == b"old"
    assert temporaries(store) == []
    with pytest.raises(StoreError, match="no space left"):
        store.append("log", b"x" * 2_000_000)
    store.delete(["log"])
    store.put("k", b"there is room again")
    assert store.get("k") == b"there is room again"
