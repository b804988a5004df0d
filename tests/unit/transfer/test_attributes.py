"""Times and modes as words beside an object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.transfer.entries import FileEntry, is_executable, read_mtime_ns, to_metadata

YEAR_9999_NS = 253_402_300_799 * 10**9


@given(st.integers(0, YEAR_9999_NS))
def test_a_time_comes_back_to_the_nanosecond(mtime_ns: int) -> None:
    assert read_mtime_ns(to_metadata(FileEntry("f", 1, mtime_ns))) == mtime_ns


def test_the_words_are_those_of_rclone() -> None:
    words = to_metadata(FileEntry("f", 1, 1_700_000_000_012_345_678, executable=True))
    assert words == {"mtime": "2023-11-14T22:13:20.012345678Z", "mode": "100755"}


@pytest.mark.parametrize(
    ("text", "mtime_ns"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500_000_000),
        ("1700000000.012345678", 1_700_000_000_012_345_678),
        ("1700000000", 1_700_000_000_000_000_000),
        ("2023-13-14T22:13:20Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times_that_others_wrote(text: str, mtime_ns: int | None) -> None:
    assert read_mtime_ns({"mtime": text}) == mtime_ns


def test_foreign_times_of_files_are_ignored() -> None:
    assert to_metadata(FileEntry("f", 1, 5, recorded=False)) == {}
    assert to_metadata(FileEntry("f", 1, -5)) == {}
    assert read_mtime_ns({}) is None


@pytest.mark.parametrize(
    ("mode", "executable"), [("100755", True), ("755", True), ("100644", False), ("x", False), ("", False)]
)
def test_modes(mode: str, executable: bool) -> None:
    assert is_executable({"mode": mode}) is executable
    assert not is_executable({})
