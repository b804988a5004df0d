"""What the extra protocols of a store promise. Add those it has to its class in a test module.

::

    class TestMyStore(StoreConformance, StreamsConformance, HashesConformance):
        def open(self) -> Store:
            return MyStore(...)

Nothing here imports pytest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from gofer.errors import GoferError, KeyNotFound, StoreError
from gofer.storage.base import (
    Blocks,
    ComparesAndSwaps,
    CopiesFrom,
    Hashes,
    ListsBeginnings,
    ReadsInto,
    Store,
    Streams,
)
from gofer.testing.storage_conformance import BAD_KEYS, raises

_MIB = 1 << 20


def pieces(data: bytes, size: int = 300_001) -> Iterator[bytes]:
    """The bytes in pieces that fit no block."""
    return (data[at : at + size] for at in range(0, len(data), size))


class ComparesAndSwapsConformance:
    """`gofer.storage.base.ComparesAndSwaps`."""

    def open(self) -> Store:
        """An empty store; called once in each test."""
        raise NotImplementedError

    def test_only_the_bytes_that_were_read_are_replaced(self) -> None:
        store = self.open()
        assert isinstance(store, ComparesAndSwaps)
        assert not store.compare_and_swap("a/k", b"none", b"1")
        assert store.compare_and_swap("a/k", None, b"1")
        assert not store.compare_and_swap("a/k", None, b"2")
        assert not store.compare_and_swap("a/k", b"0", b"2")
        assert store.get("a/k") == b"1"
        assert store.compare_and_swap("a/k", b"1", b"2")
        assert store.get("a/k") == b"2"

    def test_writers_at_once_lose_nothing(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        store = self.open()
        assert isinstance(store, ComparesAndSwaps)
        swaps = store.compare_and_swap
        store.put("k", b"")

        def add(number: int) -> None:
            while True:
                old = store.get("k")
                if swaps("k", old, old + bytes([number])):
                    return

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, range(16)))
        assert sorted(store.get("k")) == list(range(16))


class StreamsConformance:
    """`gofer.storage.base.Streams`."""

    def open(self) -> Store:
        """An empty store; called once in each test."""
        raise NotImplementedError

    def test_a_stream_comes_back_as_it_went_in(self) -> None:
        store = self.open()
        assert isinstance(store, Streams)
        for data in (b"", b"few bytes", os.urandom(19 * _MIB)):
            assert store.put_stream("a/stream", pieces(data)) == len(data)
            read = list(store.get_stream("a/stream"))
            assert b"".join(read) == data
            assert max(map(len, read), default=0) <= _MIB

    def test_parts_of_a_stream(self) -> None:
        store = self.open()
        assert isinstance(store, Streams)
        data = os.urandom(3 * _MIB)
        store.put("k", data)
        assert b"".join(store.get_stream("k", 1000)) == data[1000:]
        assert b"".join(store.get_stream("k", 1000, 2 * _MIB)) == data[1000 : 1000 + 2 * _MIB]
        assert b"".join(store.get_stream("k", len(data) - 3, 100)) == data[-3:]
        assert b"".join(store.get_stream("k", len(data))) == b""

    def test_a_stream_of_nothing(self) -> None:
        store = self.open()
        assert isinstance(store, Streams)
        with raises(KeyNotFound):
            store.get_stream("absent")
        for key in BAD_KEYS:
            with raises(StoreError):
                store.put_stream(key, [b"x"])

    def test_a_stream_that_breaks_changes_nothing(self) -> None:
        store = self.open()
        assert isinstance(store, Streams)
        store.put("k", b"old")

        def broken() -> Iterator[bytes]:
            yield from pieces(bytes(18 * _MIB))
            raise _Broken("the source failed")

        with raises(_Broken):
            store.put_stream("k", broken())
        with raises(StoreError):
            store.put_stream("k", [b"new"], md5=hashlib.md5(b"another").digest())
        assert store.get("k") == b"old"
        assert [info.key for info in store.list()] == ["k"]

    def test_a_stream_whose_reader_leaves(self) -> None:
        store = self.open()
        assert isinstance(store, Streams)
        store.put("k", bytes(4 * _MIB))
        for _ in range(40):
            stream = store.get_stream("k")
            next(stream)
            del stream
        assert store.get("k") == bytes(4 * _MIB)


class _Broken(GoferError):
    """What a test's source of bytes raises."""


class HashesConformance:
    """`gofer.storage.base.Hashes`."""

    def open(self) -> Store:
        raise NotImplementedError

    def test_md5_and_metadata_are_kept(self) -> None:
        store = self.open()
        assert isinstance(store, Hashes)
        metadata = {"mtime": "1700000000.25", "mode": "755"}
        store.put_hashed("a/k", b"data", metadata=metadata)
        info = store.head("a/k")
        assert info is not None
        assert (info.size, info.md5) == (4, hashlib.md5(b"data").digest())
        assert dict(info.metadata or {}) == metadata
        assert [one.md5 for one in store.list("a")] == [info.md5]

    def test_plain_writes_are_hashed_too(self) -> None:
        store = self.open()
        store.put("k", b"data")
        store.put("new", b"data", new=True)
        for key in ("k", "new"):
            info = store.head(key)
            assert info is not None
            assert info.md5 == hashlib.md5(b"data").digest()

    def test_other_bytes_than_the_md5_says_are_refused(self) -> None:
        store = self.open()
        assert isinstance(store, Hashes)
        store.put("k", b"old")
        with raises(StoreError):
            store.put_hashed("k", b"new", md5=hashlib.md5(b"another").digest())
        assert store.get("k") == b"old"
        store.put_hashed("k", b"new", md5=hashlib.md5(b"new").digest())
        assert store.get("k") == b"new"

    def test_a_copy_keeps_what_is_beside_the_object(self) -> None:
        store = self.open()
        assert isinstance(store, Hashes)
        store.put_hashed("k", b"data", metadata={"mtime": "5"})
        store.copy("k", "copy")
        info = store.head("copy")
        assert info is not None
        assert (info.md5, dict(info.metadata or {})) == (hashlib.md5(b"data").digest(), {"mtime": "5"})


class BlocksConformance:
    """`gofer.storage.base.Blocks`."""

    def open(self) -> Store:
        raise NotImplementedError

    def test_blocks_become_an_object_at_once(self) -> None:
        store = self.open()
        assert isinstance(store, Blocks)
        size = max(store.block_rules.least, _MIB)
        data = os.urandom(2 * size + 7)
        md5, metadata = hashlib.md5(data).digest(), {"mtime": "7"}
        store.put("k", b"old")
        upload = store.begin_upload("k", md5=md5, metadata=metadata)
        spans = {n: data[n * size : (n + 1) * size] for n in range(3)}
        blocks = [store.put_block("k", upload, n, spans[n]) for n in (2, 0, 1)]
        assert store.get("k") == b"old"
        store.commit_blocks("k", upload, sorted(blocks), md5=md5, metadata=metadata)
        assert store.get("k") == data
        info = store.head("k")
        assert info is not None
        assert (info.size, info.md5, dict(info.metadata or {})) == (len(data), md5, metadata)

    def test_what_was_sent_is_found_again(self) -> None:
        store = self.open()
        assert isinstance(store, Blocks)
        size = max(store.block_rules.least, _MIB)
        upload = store.begin_upload("a/k")
        assert not store.list_blocks("a/k", upload)
        sent = [store.put_block("a/k", upload, n, bytes([n]) * size) for n in (0, 2)]
        store.put_block("a/k", upload, 2, b"\2" * size)
        assert store.list_blocks("a/k", upload) == sent
        assert [info.key for info in store.list()] == []
        third = store.put_block("a/k", upload, 1, memoryview(b"\1" * size))
        store.commit_blocks("a/k", upload, sorted([*sent, third]))
        assert store.get("a/k") == b"\0" * size + b"\1" * size + b"\2" * size

    def test_uploads_know_nothing_of_each_other(self) -> None:
        store = self.open()
        assert isinstance(store, Blocks)
        one, two = store.begin_upload("k"), store.begin_upload("k")
        first = store.put_block("k", one, 0, b"one")
        store.put_block("k", two, 0, b"two, of another size")
        assert store.list_blocks("k", one) == [first]
        store.commit_blocks("k", one, [first])
        assert store.get("k") == b"one"

    def test_an_upload_that_nobody_knows(self) -> None:
        store = self.open()
        assert isinstance(store, Blocks)
        upload = store.begin_upload("k")
        store.put_block("k", upload, 0, b"x")
        store.abort_upload("k", upload)
        store.abort_upload("k", upload)
        assert store.list_blocks("k", "bm8tc3VjaC1v") is None
        assert store.head("k") is None


class ReadsIntoConformance:
    """`gofer.storage.base.ReadsInto`."""

    def open(self) -> Store:
        raise NotImplementedError

    def test_ranges_are_read_in_place(self) -> None:
        store = self.open()
        assert isinstance(store, ReadsInto)
        data = os.urandom(3 * _MIB)
        store.put("k", data)
        buffer = bytearray(_MIB)
        assert store.read_into("k", 12345, memoryview(buffer)) == _MIB
        assert buffer == data[12345 : 12345 + _MIB]
        assert store.read_into("k", len(data) - 10, memoryview(buffer)) == 10
        assert buffer[:10] == data[-10:]
        assert store.read_into("k", len(data), memoryview(buffer)) == 0
        with raises(KeyNotFound):
            store.read_into("absent", 0, memoryview(buffer))

    def test_another_version_is_refused(self) -> None:
        store = self.open()
        assert isinstance(store, ReadsInto)
        store.put("k", b"first version")
        info = store.head("k")
        assert info is not None
        assert info.etag is not None
        assert store.read_into("k", 0, memoryview(bytearray(5)), etag=info.etag) == 5
        store.put("k", b"second version")
        with raises(StoreError):
            store.read_into("k", 0, memoryview(bytearray(5)), etag=info.etag)


class CopiesFromConformance:
    """`gofer.storage.base.CopiesFrom`, between two stores of one kind."""

    def open(self) -> Store:
        raise NotImplementedError

    def open_other(self) -> Store:
        """Another empty store that the first can copy from."""
        raise NotImplementedError

    def test_a_copy_between_stores(self) -> None:
        source, store = self.open_other(), self.open()
        assert isinstance(store, CopiesFrom)
        assert isinstance(source, Hashes)
        data = os.urandom(3 * _MIB)
        for key in ("k", "a folder/näme with 'quotes' & %41?#"):
            source.put_hashed(key, data, metadata={"mtime": "3"})
            assert store.copy_from(source, key, f"copy/{key}")
            assert store.get(f"copy/{key}") == data
            info = store.head(f"copy/{key}")
            assert info is not None
            assert (info.md5, dict(info.metadata or {})) == (hashlib.md5(data).digest(), {"mtime": "3"})
        with raises(KeyNotFound):
            store.copy_from(source, "absent", "x")
        assert store.head("x") is None


class ListsBeginningsConformance:
    """`gofer.storage.base.ListsBeginnings`."""

    def open(self) -> Store:
        raise NotImplementedError

    def test_beginnings_need_not_be_folders(self) -> None:
        store = self.open()
        assert isinstance(store, ListsBeginnings)
        for key in ("data/voc20/a", "data/voc20.tsv", "data/voc2", "data/coco/a", "data.tsv"):
            store.put(key, b"x")
        found = [info.key for info in store.list_beginning("data/voc20")]
        assert found == ["data/voc20.tsv", "data/voc20/a"]
        assert [info.key for info in store.list_beginning("data/voc20.")] == ["data/voc20.tsv"]
        assert [info.key for info in store.list_beginning("data/")] == [
            "data/coco/a",
            "data/voc2",
            "data/voc20.tsv",
            "data/voc20/a",
        ]
