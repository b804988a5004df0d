"""Long lists, on disk and sorted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gofer.transfer.entries import FileEntry, from_record, to_record
from gofer.transfer.spool import Spool, in_order

RECORDS = st.lists(st.binary(max_size=20), max_size=60)


@given(RECORDS)
def test_a_spool_gives_back_what_it_got(records: list[bytes]) -> None:
    spool = Spool(records)
    assert len(spool) == len(records)
    assert list(spool) == list(spool) == records


def test_a_long_spool_lies_on_disk() -> None:
    records = [b"%d" % n * 100 for n in range(20_000)]
    spool = Spool(records)
    assert spool._file._rolled  # type: ignore[attr-defined]
    assert list(spool) == records


@given(RECORDS, st.integers(1, 70))
def test_sorting_in_pieces_is_sorting(records: list[bytes], most: int) -> None:
    assert list(in_order(records, most=most)) == sorted(records)


PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(
    st.builds(
        FileEntry, PATHS, st.integers(0, 2**50), st.integers(-(2**60), 2**68), st.booleans(), st.booleans()
    )
)
def test_entries_survive_as_records(entry: FileEntry) -> None:
    assert from_record(to_record(entry)) == entry


def test_a_record_keeps_names_that_are_not_utf8_and_facts_of_the_listing() -> None:
    entry = FileEntry("a\udcff\nb", 1, 2, False, True, b"\0" * 16, '"etag"')
    assert from_record(to_record(entry)) == entry


@given(st.lists(PATHS, max_size=20))
def test_records_sort_as_their_paths(paths: list[str]) -> None:
    records = [to_record(FileEntry(path, 255, 7)) for path in paths]
    assert [from_record(record).path for record in sorted(records)] == sorted(paths, key=str.encode)
