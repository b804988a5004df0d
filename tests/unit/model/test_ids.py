from __future__ import annotations

import re
from collections import Counter

import pytest

from gofer.model.ids import ALPHABET, new_run_id, row_id, short_id, split_row

AT = 1794820353.9  # 2026-11-16 09:12:33.9 UTC


def test_an_id_tells_when_in_utc() -> None:
    assert re.fullmatch(rf"r261116-091233-[{ALPHABET}]{{6}}", new_run_id(AT))


def test_ids_of_one_second_differ_and_use_the_alphabet_evenly() -> None:
    ids = {new_run_id(AT) for _ in range(3000)}
    assert len(ids) >= 2999  # two alike among 27^6 once in about 80 such tests
    used = Counter("".join(short_id(run_id) for run_id in ids))
    assert set(used) == set(ALPHABET)
    assert max(used.values()) < 1.5 * min(used.values())


def test_ids_sort_by_age() -> None:
    ids = [new_run_id(AT + seconds) for seconds in (0, 1, 60, 86400, 40_000_000)]
    assert sorted(ids) == ids


def test_rows() -> None:
    group = "r261116-091233-k9qd4x"
    assert row_id(group, 17) == f"{group}-17"
    assert split_row(f"{group}-17") == (group, 17)
    assert short_id(group) == "k9qd4x"
    assert short_id(f"{group}-17") == "k9qd4x-17"


@pytest.mark.parametrize(
    "text", ["r261116-091233-k9qd4x", "r261116-091233-k9qd4x-a", "k9qd4x-1", "", "a-b-c-²"]
)
def test_what_is_not_a_row_has_no_index(text: str) -> None:
    assert split_row(text) == (text, None)
