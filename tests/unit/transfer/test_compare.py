"""Two streams side by side, and what is said of each pair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.transfer.compare import SAME, SEND, UNSURE, OutOfOrder, judge, pair, sort
from gofer.transfer.entries import FileEntry, order

S = 1_000_000_000
PATHS = st.lists(st.text("ab/-\udcff\uffee😀", min_size=1, max_size=4), unique=True, max_size=20)


def entries(paths: list[str]) -> list[FileEntry]:
    return [FileEntry(path, 1, 1) for path in sorted(paths, key=order)]


@given(PATHS, PATHS)
def test_every_path_comes_once_with_its_like(left: list[str], right: list[str]) -> None:
    pairs = list(pair(entries(left), entries(right)))
    seen = [(here.path if here else None, there.path if there else None) for here, there in pairs]
    expected = [
        (path if path in left else None, path if path in right else None)
        for path in sorted({*left, *right}, key=order)
    ]
    assert seen == expected


def test_disorder_is_an_error_and_repetition_is_skipped() -> None:
    with pytest.raises(OutOfOrder):
        list(pair([], [FileEntry("b", 1, 1), FileEntry("a", 1, 1)]))
    with pytest.raises(OutOfOrder):
        list(pair([FileEntry("a/b", 1, 1), FileEntry("a-b", 1, 1)], []))
    assert list(pair([], [FileEntry("a", 1, 1), FileEntry("a", 2, 1)])) == [(None, FileEntry("a", 1, 1))]


@given(PATHS)
def test_sorting_mends_any_order(paths: list[str]) -> None:
    assert list(sort([FileEntry(path, 1, 1) for path in paths])) == entries(paths)


def verdict(source: FileEntry, destination: FileEntry | None) -> str:
    return judge(source, destination, checksum=False)


def file(mtime_ns: int, size: int = 1) -> FileEntry:
    return FileEntry("f", size, mtime_ns)


def stored(mtime_ns: int, size: int = 1, md5: bytes | None = None) -> FileEntry:
    """An object of which only is known when it came to the store."""
    return FileEntry("f", size, mtime_ns, recorded=False, md5=md5)


def test_what_is_not_there_or_has_another_size_is_sent() -> None:
    assert verdict(file(5), None) == SEND
    assert verdict(file(5, size=2), stored(9 * S, size=1)) == SEND
    assert judge(file(5, size=2), stored(9 * S, size=1), checksum=True) == SEND


def test_an_object_that_came_later_is_the_same() -> None:
    assert verdict(file(5 * S + 7), stored(6 * S)) == SAME
    assert verdict(file(5 * S), stored(5 * S)) == SAME
    assert verdict(file(5 * S + 7), stored(5 * S + 8)) == SAME
    assert verdict(file(7 * S), stored(6 * S)) == SEND


def test_within_the_second_of_a_coarse_clock_only_the_content_tells() -> None:
    assert verdict(file(5 * S + 7), stored(5 * S)) == UNSURE
    assert verdict(file(6 * S), stored(5 * S)) == SEND
    assert verdict(file(5 * S + 9), stored(5 * S + 8)) == SEND  # this clock is fine


def test_recorded_times_must_be_equal() -> None:
    assert verdict(file(5 * S + 7), file(5 * S + 7)) == SAME
    assert verdict(file(5 * S + 7), file(6 * S + 7)) == SEND  # an older file was put in its place
    assert verdict(file(5 * S + 7), file(5 * S + 8)) == SEND


def test_recorded_times_are_compared_as_finely_as_both_file_systems_have_them() -> None:
    assert verdict(file(5 * S + 123_456_789), file(5 * S)) == SAME
    assert verdict(file(5 * S + 123_456_789), file(5 * S + 123_456_000)) == SAME
    assert verdict(file(5 * S + 123_456_789), file(5 * S + 123_455_000)) == SEND
    assert verdict(file(5 * S + 123_456_789), file(6 * S)) == SEND


def test_a_known_md5_is_compared_before_anything_is_sent() -> None:
    assert verdict(file(7 * S), stored(6 * S, md5=b"x")) == UNSURE
    assert verdict(stored(7 * S, md5=b"x"), file(6 * S)) == UNSURE
    assert verdict(file(5 * S), stored(6 * S, md5=b"x")) == SAME


def test_a_download_is_the_same_when_it_has_the_time_of_the_object() -> None:
    assert verdict(stored(5 * S), file(5 * S)) == SAME
    assert verdict(stored(5 * S), file(4 * S)) == SEND


def test_checksum_asks_for_every_content() -> None:
    assert judge(file(5), stored(9 * S), checksum=True) == UNSURE
