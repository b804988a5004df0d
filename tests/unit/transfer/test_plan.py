"""What is decided before anything moves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from transfer.transfers import counts, down, move, up
from transfer.trees import read, write

from gofer.errors import UsageError
from gofer.storage.base import ObjectInfo
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore
from gofer.transfer import End, LocalEnd, StoreEnd, TransferOptions, plan


class Backwards(MemoryStore):
    """Lists its objects in no order that anyone asked for, as some services do."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return iter(list(super().list(prefix))[::-1])


def test_a_listing_out_of_order_is_sorted_first(folder: Path, tmp_path: Path) -> None:
    files = {f"{n % 5}/{n}": b"%d" % n for n in range(50)}
    write(folder, files)
    store = Backwards()
    assert counts(up(folder, store)) == (50, 0, 0, 0)
    assert counts(up(folder, store)) == (0, 50, 0, 0)
    os.unlink(folder / "0/0")
    assert counts(up(folder, store, options=TransferOptions(delete=True))) == (0, 49, 1, 0)
    assert counts(down(store, tmp_path / "back", options=TransferOptions(delete=True))) == (49, 0, 0, 0)
    assert counts(down(store, tmp_path / "back", options=TransferOptions(delete=True))) == (0, 49, 0, 0)
    assert read(tmp_path / "back") == read(folder)


def test_a_plan_changes_nothing(folder: Path) -> None:
    write(folder, {"new": b"12", "same": b"1"})
    store = MemoryStore()
    store.put("data/same", b"1")
    store.put("data/extra", b"123")
    planned = plan(LocalEnd(folder), StoreEnd(store, "data"), TransferOptions(delete=True))
    assert (planned.files, planned.bytes) == (1, 2)
    assert (planned.skipped, planned.skipped_bytes) == (1, 1)
    assert (planned.deletes, planned.delete_bytes) == (1, 3)
    assert [entry.path for entry in planned.items()] == ["new"]
    assert [entry.path for entry in planned.deletions()] == ["extra"]
    assert [info.key for info in store.list()] == ["data/extra", "data/same"]


def overlapping(tmp_path: Path) -> Iterator[tuple[End, End]]:
    memory = MemoryStore()
    disk = FileStore(tmp_path / "store", create=True)
    yield StoreEnd(memory, "a"), StoreEnd(memory, "a")
    yield StoreEnd(memory, "a"), StoreEnd(memory, "a/b")
    yield StoreEnd(memory, "a/b"), StoreEnd(memory, "a")
    yield StoreEnd(memory), StoreEnd(memory, "a")
    yield LocalEnd(tmp_path / "store/a"), StoreEnd(disk, "a")
    yield StoreEnd(disk, "a/b"), LocalEnd(tmp_path / "store/a")
    yield LocalEnd(tmp_path), StoreEnd(disk)
    yield StoreEnd(disk, "a"), StoreEnd(FileStore(tmp_path / "store"), "a")


def test_ends_that_overlap_are_refused(tmp_path: Path) -> None:
    for source, destination in overlapping(tmp_path):
        with pytest.raises(UsageError, match="overlap"):
            plan(source, destination, TransferOptions(delete=True))


def test_neighbours_do_not_overlap(tmp_path: Path) -> None:
    memory = MemoryStore()
    memory.put("a/x", b"1")
    move(StoreEnd(memory, "a"), StoreEnd(memory, "ab"))
    move(StoreEnd(memory, "a"), StoreEnd(MemoryStore(), "a"))
    assert [info.key for info in memory.list()] == ["a/x", "ab/x"]


def test_two_local_ends_are_refused(folder: Path, tmp_path: Path) -> None:
    write(folder, {"a": b"1"})
    with pytest.raises(UsageError, match="both on this machine"):
        move(LocalEnd(folder), LocalEnd(tmp_path / "other"))


def test_an_object_with_the_name_of_the_folder_is_named_not_mixed_in(folder: Path) -> None:
    store = MemoryStore()
    store.put("data", b"an object")
    store.put("data/file", b"1")
    result = down(store, folder)
    assert counts(result) == (1, 0, 0, 1)
    assert [path for path, _ in result.odd] == ["data"]
    assert read(folder) == {"file": b"1"}
    write(folder, {"new": b"1"})
    assert counts(up(folder, store, options=TransferOptions(delete=True))) == (1, 1, 0, 0)
    assert store.get("data") == b"an object"


def test_something_odd_as_the_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        plan(LocalEnd(tmp_path / "pipe"), StoreEnd(MemoryStore(), "a"))
