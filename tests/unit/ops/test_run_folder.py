"""A run's folder is listed once, whatever is read of it, and it is read as it was then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from unit.ops import run_folders
from unit.ops.counting_store import CountingStore

from gofer.core import run_layout as names
from gofer.errors import StoreError
from gofer.ops.logs.joined_parts import JoinedStore
from gofer.ops.runs.run_folder import RunFolder
from gofer.storage.base import ObjectInfo
from gofer.storage.memory import MemoryStore

RUN = "r261116-091233-k9qd4x"
LOG = f"{names.node_key(RUN, 2, 0)}/{names.rank_log(0)}"


class ListingStore(CountingStore):
    """Notes the prefixes that are listed, and can break off a listing."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.listed: list[str] = []
        self.is_broken = False

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.listed.append(prefix)
        for info in self.inner.list(prefix):
            yield info
            if self.is_broken:
                raise StoreError("connection reset")


def written() -> ListingStore:
    store = ListingStore()
    folder = run_folders.RunFolder(store.inner, RUN)
    for attempt in (1, 2):
        for node in (0, 1):
            folder.log(b"x\n", rank=node, node=node, attempt=attempt)
            folder.exit("failed", node=node, attempt=attempt, exit_code=3)
    folder.heartbeat(1.0, [], attempt=2)
    for number in range(10):
        folder.output(f"out-{number}", b"out")
    return store


def test_everything_is_read_with_one_listing() -> None:
    store = written()
    folder = RunFolder(JoinedStore(store), RUN, whole=True)
    assert folder.attempts == [1, 2]
    assert folder.nodes(2) == [0, 1]
    assert [(log.attempt, log.node, log.rank) for log in folder.logs] == [
        (1, 0, 0),
        (1, 1, 1),
        (2, 0, 0),
        (2, 1, 1),
    ]
    assert {node: one and one.exit_code for node, one in folder.exit_records(2).items()} == {0: 3, 1: 3}
    assert list(folder.heartbeats(2)) == [0]
    assert len([*folder.list_place("outputs")]) == 10
    assert [*folder.list_place("files")] == []
    assert store.listed == [names.run_key(RUN)]


def test_a_file_that_is_absent_costs_no_request() -> None:
    store = written()
    folder = RunFolder(JoinedStore(store), RUN)
    assert folder.logs
    store.reset()
    assert folder.heartbeats(1) == {} and folder.newest_of_nodes(names.FILE_LIST) == {}
    assert folder.read_end(2, 0, names.EVENTS, 100) == b""
    assert store.reads == []


def test_very_many_outputs_are_listed_apart() -> None:
    store = written()
    for number in range(6_000):
        store.inner.put(f"{names.files_key(RUN)}/{number}", b"")
    folder = RunFolder(JoinedStore(store), RUN, whole=True)
    assert folder.attempts == [1, 2]
    assert len([*folder.list_place("outputs")]) == 10
    assert len([*folder.list_place("files")]) == 6_000
    assert store.listed == [names.run_key(RUN), names.outputs_key(RUN), names.files_key(RUN)]


def test_a_log_in_parts_is_read_as_it_was_listed() -> None:
    store = written()
    store.delete([LOG])
    store.put(names.part_key(LOG, 0), b"one\n")
    store.put(names.part_key(LOG, 4), b"two\n")
    folder = RunFolder(JoinedStore(store), RUN)
    assert [log.size for log in folder.logs if log.key == LOG] == [8]
    store.put(names.part_key(LOG, 8), b"three\n")
    assert folder.store.get(LOG) == b"one\ntwo\n"
    assert folder.store.get_range(LOG, -4, 4) == b"two\n"
    assert len(store.listed) == 1


def test_a_log_whose_parts_were_replaced_is_read_again() -> None:
    store = written()
    store.delete([LOG])
    store.put(names.part_key(LOG, 0), b"one\n")
    folder = RunFolder(JoinedStore(store), RUN)
    assert folder.logs
    store.delete([names.part_key(LOG, 0)])
    store.put(LOG, b"one\ntwo\n")
    assert folder.store.get(LOG) == b"one\ntwo\n"


def test_a_listing_that_breaks_off_is_no_shorter_folder() -> None:
    store = written()
    folder = RunFolder(JoinedStore(store), RUN)
    store.is_broken = True
    with pytest.raises(StoreError):
        _ = folder.attempts
    store.is_broken = False
    assert folder.attempts == [1, 2]
