"""docs/support.md is of the suite as it is."""

from __future__ import annotations

from support_table import COLUMNS, PAGE, words

from gofer.testing.backend_conformance import BackendConformance


def test_the_page_has_every_test_of_the_suite_and_no_failure() -> None:
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = {cells[0]: cells[1:] for cells in lines[1:]}
    suite = {words(name) for name in dir(BackendConformance) if name.startswith("test_")}
    assert set(rows) == suite, "stale: run `make support`"
    assert all(len(cells) == len(COLUMNS) and set(cells) <= {"yes", "-"} for cells in rows.values())
