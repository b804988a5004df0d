"""What every store must do. Subclass in a test module, say how to open an empty store, and run pytest.

::

    class TestMyStore(StoreConformance):
        def open(self) -> Store:
            return MyStore(...)

A store whose objects can grow adds AppendsConformance. Nothing here imports pytest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gofer.errors import GoferError, KeyExists, KeyNotFound, StoreError
from gofer.storage.base import Appends, Store

ODD_NAMES = (
    "with space",
    "quote'double\"back`tick",
    "new\nline",
    "tab\tand\\backslash",
    "-rf",
    "*?[a-z]{b,c}$HOME",
    "%41%2F",
    "naïve-日本-😀",
    "not-utf8-\udcff\udc80",
    ".hidden",
    "...",
    "a" * 200,
)
BAD_KEYS = ("", "/", "/etc", "a//b", "a/", "../x", "a/../b", "..", ".", "./a", "a/.", "a\0b", "\ud800")


@contextmanager
def raises(kind: type[GoferError]) -> Iterator[None]:
    """The block must raise exactly this kind of error, or one below it."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


class StoreConformance:
    """The verbs of `gofer.storage.base.Store`."""

    def open(self) -> Store:
        """An empty store; called once in each test."""
        raise NotImplementedError

    def test_bytes_come_back_as_they_went_in(self) -> None:
        store = self.open()
        for data in (b"", b"\0\xff\r\n", bytes(range(256)) * 5000):
            store.put("a/b", data)
            assert store.get("a/b") == data

    def test_put_replaces(self) -> None:
        store = self.open()
        store.put("k", b"a longer old object")
        store.put("k", b"new")
        assert store.get("k") == b"new"

    def test_put_new_creates_once(self) -> None:
        store = self.open()
        store.put("a/k", b"first", new=True)
        with raises(KeyExists):
            store.put("a/k", b"second", new=True)
        assert store.get("a/k") == b"first"

    def test_put_new_has_one_winner_between_threads(self) -> None:
        store = self.open()
        won: list[bytes] = []
        gate = threading.Barrier(8)

        def write(data: bytes) -> None:
            gate.wait()
            try:
                store.put("raced", data, new=True)
            except KeyExists:
                return
            won.append(data)

        threads = [threading.Thread(target=write, args=[b"%d" % i]) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [store.get("raced")]

    def test_absent_objects(self) -> None:
        store = self.open()
        store.put("a/b", b"x")
        for key in ("nothing", "a", "a/c", "a/b/c"):
            assert store.head(key) is None, key
            with raises(KeyNotFound):
                store.get(key)
            with raises(KeyNotFound):
                store.get_range(key, 0, 0)
            with raises(KeyNotFound):
                store.copy(key, "elsewhere")
        assert [info.key for info in store.list()] == ["a/b"]

    def test_ranges(self) -> None:
        store = self.open()
        store.put("k", b"0123456789")
        assert store.get_range("k", 0, 10) == b"0123456789"
        assert store.get_range("k", 2, 3) == b"234"
        assert store.get_range("k", 8, 100) == b"89"
        assert store.get_range("k", 10, 5) == store.get_range("k", 99, 5) == b""
        assert store.get_range("k", -3, 2) == b"78"
        assert store.get_range("k", -3, 100) == b"789"
        assert store.get_range("k", -99, 4) == b"0123"
        assert store.get_range("k", 4, 0) == b""
        with raises(StoreError):
            store.get_range("k", 0, -1)

    def test_head(self) -> None:
        store = self.open()
        before = time.time()
        store.put("a/k", b"12345")
        info = store.head("a/k")
        assert info is not None
        assert (info.key, info.size) == ("a/k", 5)
        assert abs(info.modified - before) < 60  # a store's clock need not be ours to the second

    def test_list_is_in_key_order_and_stays_in_its_folder(self) -> None:
        store = self.open()
        keys = ["a", "a-b", "a.b", "b/a/c", "b/a-c", "b/a.c/d", "b/b", "bb", "c"]
        for key in reversed(keys):
            store.put(key, key.encode())
        listed = list(store.list())
        assert [info.key for info in listed] == sorted(keys)
        assert [info.size for info in listed] == [len(key) for key in sorted(keys)]
        assert [info.key for info in store.list("b")] == ["b/a-c", "b/a.c/d", "b/a/c", "b/b"]
        assert [info.key for info in store.list("b/a")] == ["b/a/c"]
        assert [info.key for info in store.list("b/b")] == ["b/b"]
        assert list(store.list("zzz")) == list(store.list("b/b/c")) == []

    def test_list_folders(self) -> None:
        store = self.open()
        for key in ("runs/r2/run.json", "runs/r1/a/b", "runs/r1/c", "runs/note", "packs/p"):
            store.put(key, b"x")
        assert list(store.list_folders()) == ["packs", "runs"]
        assert list(store.list_folders("runs")) == ["r1", "r2"]
        assert list(store.list_folders("runs/r2")) == list(store.list_folders("run")) == []
        assert list(store.list_folders("runs/note")) == []

    def test_delete(self) -> None:
        store = self.open()
        for key in ("a/b/c", "a/d", "e"):
            store.put(key, b"x")
        assert store.delete(["a/b/c", "nothing", "a/b/nothing", "e/f"]) == 1
        assert [info.key for info in store.list()] == ["a/d", "e"]
        assert list(store.list_folders("a")) == []
        assert store.delete(iter(["a/d", "e"])) == 2
        assert list(store.list_folders()) == []
        store.put("a/d", b"again")
        assert store.get("a/d") == b"again"

    def test_copy_replaces(self) -> None:
        store = self.open()
        store.put("from", b"data")
        store.put("to/there", b"old and longer")
        store.copy("from", "to/there")
        store.copy("from", "to/new/place")
        assert store.get("from") == store.get("to/there") == store.get("to/new/place") == b"data"

    def test_odd_names(self) -> None:
        store = self.open()
        keys = [f"{name}/{name}" for name in ODD_NAMES]
        for key in keys:
            store.put(key, key.encode("utf-8", "surrogateescape"), new=True)
        assert [info.key for info in store.list()] == sorted(keys)
        assert list(store.list_folders()) == sorted(ODD_NAMES)
        for key in keys:
            assert store.get(key) == key.encode("utf-8", "surrogateescape")
            assert [info.key for info in store.list(key)] == [key]
        assert store.delete(keys) == len(keys)

    def test_keys_that_leave_the_store_are_refused(self) -> None:
        store = self.open()
        for key in BAD_KEYS:
            with raises(StoreError):
                store.put(key, b"x")
            with raises(StoreError):
                store.get(key)
            with raises(StoreError):
                store.get_range(key, 0, 1)
            with raises(StoreError):
                store.head(key)
            with raises(StoreError):
                store.delete([key])
            if key:
                with raises(StoreError):
                    list(store.list(key))
                with raises(StoreError):
                    list(store.list_folders(key))
        store.put("good", b"x")
        for key in BAD_KEYS:
            with raises(StoreError):
                store.copy("good", key)
        assert [info.key for info in store.list()] == ["good"]

    def test_readers_see_whole_objects(self) -> None:
        store = self.open()
        wholes = {bytes([digit]) * 200_000 for digit in b"0123"}
        store.put("k", min(wholes))
        done = threading.Event()

        def write() -> None:
            for data in sorted(wholes) * 10:
                store.put("k", data)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        while not done.is_set():
            assert store.get("k") in wholes
        writer.join()


class AppendsConformance(StoreConformance):
    """A store that is also `gofer.storage.base.Appends`."""

    def test_append_creates_and_extends(self) -> None:
        store = self.open()
        assert isinstance(store, Appends)
        store.append("a/log", b"one\n")
        store.append("a/log", b"")
        store.append("a/log", b"two\n")
        assert store.get("a/log") == b"one\ntwo\n"
        assert store.get_range("a/log", -4, 100) == b"two\n"
        assert [info.size for info in store.list()] == [8]

    def test_append_to_a_put_object(self) -> None:
        store = self.open()
        assert isinstance(store, Appends)
        store.put("k", b"one")
        store.append("k", b"two")
        assert store.get("k") == b"onetwo"

    def test_append_refuses_bad_keys(self) -> None:
        store = self.open()
        assert isinstance(store, Appends)
        for key in BAD_KEYS:
            with raises(StoreError):
                store.append(key, b"x")

    def test_lines_appended_at_once_stay_whole(self) -> None:
        store = self.open()
        assert isinstance(store, Appends)
        lines = [b"%d" % i * 500 + b"\n" for i in range(4)]

        def write(line: bytes) -> None:
            for _ in range(50):
                store.append("log", line)

        threads = [threading.Thread(target=write, args=[line]) for line in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(store.get("log").splitlines(keepends=True)) == sorted(lines * 50)
