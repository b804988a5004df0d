"""The index of a packed folder: its form, its speed, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import zlib

import pytest
from calls import counted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gofer.errors import StoreError
from gofer.transfer.packs.fill import LocalFile
from gofer.transfer.packs.index import MAGIC, Index, Pack, Packed
from gofer.transfer.packs.write import draft, merge

NAME = "ab" * 32


def packed(name: bytes, pack: int = 0, offset: int = 0, size: int = 1) -> Packed:
    return Packed(name, pack, offset, size, 5, 0o644, hashlib.md5(name).digest())


def local(name: bytes, size: int = 1) -> LocalFile:
    return LocalFile(name, f"/{name!r}", size, 5)


PARTS = st.binary(min_size=1, max_size=5).filter(
    lambda part: not {0, 47} & set(part) and part not in (b".", b"..")
)
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=3).map(b"/".join), unique=True, max_size=30)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES)
def test_what_is_written_is_read(names: list[bytes]) -> None:
    files = [packed(name, 0, at, 1) for at, name in enumerate(names)]
    index = Index([Pack(NAME, max(len(names), 1))], files)
    read = Index.decode(index.encode(), "x")
    assert list(read) == sorted(files)
    assert read.packs == index.packs
    for file in files:
        assert read.find(file.name) == file


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, st.lists(PARTS, min_size=1, max_size=2).map(b"/".join))
def test_folders_and_beginnings_are_those_of_a_plain_search(names: list[bytes], wanted: bytes) -> None:
    index = Index([Pack(NAME, 100)], [packed(name) for name in names])
    below = {file.name for file in index.under(wanted)}
    assert below == {name for name in names if name == wanted or name.startswith(wanted + b"/")}
    assert {file.name for file in index.beginning(wanted)} == {n for n in names if n.startswith(wanted)}
    assert len(list(index.under(b""))) == len(names)


def test_a_hundred_thousand_files_are_read_with_three_calls_each() -> None:
    files = [packed(b"train/%05d/%06d.jpg" % (at % 1000, at), 0, at, 1) for at in range(100_000)]
    data = Index([Pack(NAME, 100_000)], files).encode()
    found, calls = counted(lambda: Index.decode(data, "x").find(b"train/00777/050777.jpg"))
    assert found is not None
    assert calls <= 3 * len(files)
    assert len(data) < 6_000_000


def test_a_file_continues_in_the_next_pack() -> None:
    index = Index([Pack(NAME, 10), Pack(NAME, 10), Pack(NAME, 5)], [packed(b"big", 0, 4, 20)])
    (file,) = index
    assert list(index.pieces(file)) == [(0, 4, 6), (1, 0, 10), (2, 0, 4)]
    assert index.live_bytes() == [6, 10, 4]


@pytest.mark.parametrize(
    "index",
    [
        Index([Pack(NAME, 10)], [packed(b"../x")]),
        Index([Pack(NAME, 10)], [packed(b"a/../x")]),
        Index([Pack(NAME, 10)], [packed(b"/etc/passwd")]),
        Index([Pack(NAME, 10)], [packed(b"a//b")]),
        Index([Pack(NAME, 10)], [packed(b"a/")]),
        Index([Pack(NAME, 10)], [packed(b".")]),
        Index([Pack(NAME, 10)], [packed(b"")]),
        Index([Pack(NAME, 10)], [packed(b"a"), packed(b"a")]),
        Index([Pack(NAME, 10)], [packed(b"a", 1)]),
        Index([Pack(NAME, 10)], [packed(b"a", 0, 5, 6)]),
        Index([Pack(NAME, 10), Pack(NAME, 10)], [packed(b"a", 0, 10, 1)]),
        Index([Pack("../evil", 10)], [packed(b"a")]),
        Index([Pack(NAME, 1 << 40)], [packed(b"a")]),
    ],
)
def test_an_index_that_leads_out_of_its_folder_is_refused(index: Index) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        Index.decode(index.encode(), "x")


def test_a_damaged_index_is_refused() -> None:
    good = Index([Pack(NAME, 10)], [packed(b"a")]).encode()
    for bad in (b"", b"other", good[:-1], good[:-1] + b"\0", good.replace(b'"files": 1', b'"files": 2')):
        with pytest.raises(StoreError):
            Index.decode(bad, "x")


@pytest.mark.parametrize(
    "header",
    [
        '{"files": Infinity, "names": 1, "packs": [], "sha256": "SUM"}',
        '{"files": 1, "names": 1, "packs": [["a", 1e999]], "sha256": "SUM"}',
        '{"files": 1, "names": 1, "packs": 5, "sha256": "SUM"}',
        "[" * 100_000,
        "[]",
        "\\ud800",
    ],
)
def test_an_index_whose_header_is_something_else_is_refused(header: str) -> None:
    body = zlib.compress(b"a" + b"\0" * 46)
    data = header.replace("SUM", hashlib.sha256(body).hexdigest()).encode()
    with pytest.raises(StoreError, match="cannot be read"):
        Index.decode(MAGIC + data + b"\n" + body, "x")


def test_a_small_index_that_would_unpack_to_gigabytes_is_refused() -> None:
    body = zlib.compress(b"\0" * 50_000_000)
    header = {"files": 1, "names": 1, "packs": [], "sha256": hashlib.sha256(body).hexdigest()}
    with pytest.raises(StoreError, match="length"):
        Index.decode(MAGIC + json.dumps(header).encode() + b"\n" + body, "x")


# -- what a new index is made of


def test_only_what_changed_is_sent() -> None:
    index = Index([Pack(NAME, 100)], [packed(b"a", 0, 0, 50), packed(b"b", 0, 50, 50)])
    drawn = draft(index, [local(b"c"), local(b"a"), local(b"b")], lambda file, entry: file.name == b"a")
    assert [file.name for file in drawn.send] == [b"b", b"c"]
    assert (drawn.unchanged, drawn.moved) == (1, 0)


def test_what_lies_in_a_pack_that_is_mostly_dead_is_sent_again() -> None:
    index = Index([Pack(NAME, 100)], [packed(b"a", 0, 0, 10), packed(b"b", 0, 10, 90)])
    drawn = draft(index, [local(b"a"), local(b"b")], lambda file, entry: file.name == b"a")
    assert [file.name for file in drawn.send] == [b"a", b"b"]
    assert (drawn.unchanged, drawn.moved) == (0, 1)


def test_many_small_packs_become_one() -> None:
    index = Index([Pack(NAME, 10)] * 9, [packed(b"%d" % at, at, 0, 10) for at in range(9)])
    files = [local(b"%d" % at) for at in range(9)]
    assert len(draft(index, files, lambda file, entry: True).send) == 9
    assert draft(index, files[:2], lambda file, entry: True).moved == 2


def test_merging_keeps_drops_and_adds() -> None:
    other = "cd" * 32
    index = Index(
        [Pack(NAME, 10), Pack(other, 10), Pack(NAME, 10)],
        [
            packed(b"keep", 1, 5, 10),
            packed(b"drop", 0, 0, 10),
            packed(b"old", 0, 0, 1),
            packed(b"none", 2, 9, 0),
        ],
    )
    merged = merge(index, {b"drop"}, [Pack("ef" * 32, 7)], [packed(b"old", 0, 3, 4)])
    assert [pack.name for pack in merged.packs] == [other, NAME, "ef" * 32]
    assert {file.name: (file.pack, file.offset, file.size) for file in merged} == {
        b"keep": (0, 5, 10),
        b"none": (1, 9, 0),
        b"old": (2, 3, 4),
    }
    assert Index.decode(merged.encode(), "x").find(b"keep") == merged.find(b"keep")
