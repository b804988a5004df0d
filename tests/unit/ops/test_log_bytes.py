"""The last lines of a log cost little to read, whatever the log looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.ops.counting_store import CountingStore

from gofer.ops.logs.log_bytes import CHUNK, TAIL_LIMIT, StoredLog, read_forward, read_tail
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore

KEY = "runs/r/attempts/1/node-0/rank-0.log"


def stored(data: bytes) -> CountingStore:
    store = CountingStore(MemoryStore())
    store.put(KEY, data)
    return store


def test_last_100_lines_of_1_gib_read_less_than_2_mib(tmp_path: Path) -> None:
    """The file is sparse: a hole of 1 GiB with real lines at its end."""
    store = CountingStore(FileStore(tmp_path, create=True))
    path = tmp_path / KEY
    path.parent.mkdir(parents=True)
    lines = b"".join(b"step %d loss 0.%06d\n" % (n, n * 7) for n in range(1000))
    with open(path, "wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 30)
        file.write(b"\n" + lines)
    start, data = read_tail(StoredLog(store, KEY), 100)
    assert data.splitlines() == lines.splitlines()[-100:]
    assert start == path.stat().st_size - len(data)
    assert store.bytes_read < 64 << 10


def test_one_line_of_1_gib_is_cut_and_reads_less_than_2_mib(tmp_path: Path) -> None:
    store = CountingStore(FileStore(tmp_path, create=True))
    path = tmp_path / KEY
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    start, data = read_tail(StoredLog(store, KEY), 100)
    assert (start, len(data)) == ((1 << 30) - TAIL_LIMIT, TAIL_LIMIT)
    assert store.bytes_read < 2 << 20


@given(st.lists(st.binary(max_size=40)), st.booleans(), st.integers(0, 12))
def test_agrees_with_splitting_the_whole(parts: list[bytes], torn: bool, lines: int) -> None:
    data = b"".join(part.replace(b"\n", b"") + b"\n" for part in parts) + (b"torn \xff" if torn else b"")
    start, tail = read_tail(StoredLog(stored(data), KEY), lines)
    whole = data.split(b"\n")
    if whole[-1] == b"":
        whole.pop()
    kept = whole[-lines:] if lines else []
    assert tail == b"\n".join(kept) + (b"\n" if kept and data.endswith(b"\n") else b"")
    assert data[start:] == tail


@pytest.mark.parametrize("size", [16383, 16384, 16385, 49152, 49153])
def test_lines_across_the_edges_of_steps(size: int) -> None:
    data = b"first\n" + b"x" * size + b"\n" + b"last\n"
    assert read_tail(StoredLog(stored(data), KEY), 1)[1] == b"last\n"
    assert read_tail(StoredLog(stored(data), KEY), 2)[1] == b"x" * size + b"\nlast\n"
    assert read_tail(StoredLog(stored(data), KEY), 3) == (0, data)
    assert read_tail(StoredLog(stored(data), KEY), 4) == (0, data)


def test_many_lines_may_be_longer_than_the_limit() -> None:
    data = b"".join(b"%0999d\n" % n for n in range(3000))
    assert len(data) > TAIL_LIMIT
    assert read_tail(StoredLog(stored(data), KEY), 2000)[1] == data[-2_000_000:]


def test_absent_and_empty() -> None:
    store = CountingStore(MemoryStore())
    assert read_tail(StoredLog(store, KEY), 10) == (0, b"")
    assert list(read_forward(StoredLog(store, KEY))) == []
    store.put(KEY, b"")
    assert read_tail(StoredLog(store, KEY), 10) == (0, b"")


def test_zero_requested_lines_is_the_end() -> None:
    assert read_tail(StoredLog(stored(b"a\nb\n"), KEY), 0) == (4, b"")


def test_a_log_that_was_replaced_by_a_shorter_one_is_no_crash() -> None:
    class Shrinking(CountingStore):
        def get_range(self, key: str, start: int, length: int) -> bytes:
            self.inner.put(key, b"short\n")
            return super().get_range(key, start, length)

    store = Shrinking(MemoryStore())
    store.put(KEY, b"long line\n" * 10_000)
    assert read_tail(StoredLog(store, KEY), 5)[1] == b""


def test_forward_reads_all_in_bounded_chunks_from_an_offset() -> None:
    data = bytes(range(256)) * 10_000
    store = stored(data)
    pieces = list(read_forward(StoredLog(store, KEY), 100))
    assert b"".join(pieces) == data[100:]
    assert max(len(piece) for piece in pieces) == CHUNK
