"""Copies are brought up to date by what is new, and are equal to the originals byte for byte."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.ops.counting_store import CountingStore

from gofer.errors import StoreError
from gofer.ops.logs.log_copies import mirror
from gofer.storage.base import ObjectInfo
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore

LOG = "a/1/rank-0.log"


@pytest.fixture
def inner() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def store(inner: MemoryStore) -> CountingStore:
    return CountingStore(inner)


def test_only_new_bytes_of_a_log_are_read(inner: MemoryStore, store: CountingStore, tmp_path: Path) -> None:
    inner.append(LOG, b"x" * 100_000)
    assert mirror(store, "a", tmp_path).bytes_read == 100_000
    inner.append(LOG, b"new line\n")
    store.reset()
    copied = mirror(store, "a", tmp_path)
    assert copied.paths == [tmp_path / "1" / "rank-0.log"]
    assert store.bytes_read == copied.bytes_read <= 300
    assert copied.paths[0].read_bytes() == inner.get(LOG)
    store.reset()
    assert mirror(store, "a", tmp_path).bytes_read == store.bytes_read == 0


@pytest.mark.parametrize("local", [b"something else entirely", b"y" * 200_000, b"x" * 50_000 + b"edited"])
def test_a_copy_that_is_no_beginning_is_fetched_again(
    inner: MemoryStore, store: CountingStore, tmp_path: Path, local: bytes
) -> None:
    inner.append(LOG, b"x" * 100_000)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "rank-0.log").write_bytes(local)
    mirror(store, "a", tmp_path)
    assert (tmp_path / "1" / "rank-0.log").read_bytes() == inner.get(LOG)


def test_bytes_are_kept_as_they_are(inner: MemoryStore, store: CountingStore, tmp_path: Path) -> None:
    data = bytes(range(256)) * 3 + b"\r\n\x00torn"
    inner.append(LOG, data)
    (path,) = mirror(store, "a", tmp_path).paths
    assert path.read_bytes() == data


def test_whole_files_are_read_again_only_when_they_changed(tmp_path: Path) -> None:
    store = CountingStore(FileStore(tmp_path / "store", create=True))
    copy = tmp_path / "copy"
    for seconds, text in ((100.25, b'{"v":1}'), (200.5, b'{"v":2}')):
        store.put("a/exit.json", text)
        os.utime(tmp_path / "store" / "a" / "exit.json", (seconds, seconds))
        store.reset()
        mirror(store, "a", copy)
        mirror(store, "a", copy)
        assert len([size for _, size in store.reads if size]) == 1
        assert (copy / "exit.json").read_bytes() == text
    assert os.listdir(copy) == ["exit.json"]


def test_a_change_right_after_a_copy_is_noticed(inner: MemoryStore, tmp_path: Path) -> None:
    """Of the same size, and within what a store's clock can tell apart."""
    inner.put("a/exit.json", b'{"v":1}')
    mirror(inner, "a", tmp_path)
    inner.put("a/exit.json", b'{"v":2}')
    mirror(inner, "a", tmp_path)
    assert (tmp_path / "exit.json").read_bytes() == b'{"v":2}'


def test_a_failed_copy_leaves_the_old_and_no_scraps(
    inner: MemoryStore, store: CountingStore, tmp_path: Path
) -> None:
    inner.put("a/exit.json", b"old")
    mirror(store, "a", tmp_path)
    inner.put("a/exit.json", b"newer")
    store.failures = 1
    with pytest.raises(StoreError, match="connection reset"):
        mirror(store, "a", tmp_path)
    assert (tmp_path / "exit.json").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["exit.json"]


def test_unwanted_objects_are_not_read(inner: MemoryStore, store: CountingStore, tmp_path: Path) -> None:
    inner.put("a/heartbeat.json", b"{}")
    inner.put("a/rank-0.log", b"hi\n")
    mirror(store, "a", tmp_path, lambda key: key.endswith(".log"))
    assert [key for key, _ in store.reads] == ["a/rank-0.log"]
    assert os.listdir(tmp_path) == ["rank-0.log"]


def test_a_neighbour_with_the_same_beginning_is_not_taken(inner: MemoryStore, tmp_path: Path) -> None:
    inner.put("a/x.log", b"1")
    inner.put("ab/y.log", b"2")
    assert mirror(inner, "a", tmp_path).paths == [tmp_path / "x.log"]


def test_odd_names_survive(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store", create=True)
    names = ["with space", "quo'te\"", "new\nline", "\udcff-not-utf8", "-dash", "back\\slash"]
    for name in names:
        store.put(f"out/{name}/{name}", name.encode("utf-8", "surrogateescape"))
    copied = mirror(store, "out", tmp_path / "copy")
    assert len(copied.paths) == len(names)
    for name in names:
        assert (tmp_path / "copy" / name / name).read_bytes() == name.encode("utf-8", "surrogateescape")


def test_a_listing_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    class Hostile(MemoryStore):
        def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
            return iter([ObjectInfo(f"{prefix}/../../evil", 1, 0.0)])

    with pytest.raises(StoreError, match="leaves its folder"):
        mirror(Hostile(), "a", tmp_path / "deep" / "copy")
    assert list(tmp_path.rglob("evil")) == []


def test_two_copies_at_once_while_the_log_grows(inner: MemoryStore, tmp_path: Path) -> None:
    """Neither process may add what the other has added already."""
    done = threading.Event()

    def write() -> None:
        for number in range(400):
            inner.append(LOG, b"line %d\n" % number)
        done.set()

    def copy() -> None:
        while not done.is_set():
            mirror(inner, "a", tmp_path)

    threads = [threading.Thread(target=one) for one in (write, copy, copy)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    mirror(inner, "a", tmp_path)
    assert (tmp_path / "1" / "rank-0.log").read_bytes() == b"".join(b"line %d\n" % n for n in range(400))
