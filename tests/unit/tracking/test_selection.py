"""A selection gives what `select` gives, in its order, while it reads the ledger in batches."""

from __future__ import annotations

from unit.tracking.build import group, run

from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Query

GROUP = "r261116-091233-gggggg"
SINGLE = "r261116-091233-bbbbbb"


def test_a_selection_of_several_batches_is_what_select_returns(ledger: Ledger) -> None:
    ledger.insert([run(SINGLE), *group(GROUP, 1_203)])
    for query in (Query(include_rows=True), Query(include_rows=True, sort="row", reverse=True, records=True)):
        selection = ledger.selection(query)
        assert len(selection) == 1_205
        assert list(selection) == ledger.select(query)
        assert list(selection) == list(selection)


def test_the_first_runs_of_a_selection_keep_its_order(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 20))
    selection = ledger.selection(Query(include_rows=True, sort="row", reverse=True))
    assert [row.row_index for row in selection.first(3)] == [19, 18, 17]
    assert len(selection.first(None)) == len(selection) == 21


def test_a_run_that_is_removed_while_a_selection_is_read_is_left_out(ledger: Ledger) -> None:
    other = "r261116-091233-cccccc"
    ledger.insert([run(SINGLE), run(other, state="succeeded", ended_at=2.0)])
    selection = ledger.selection(Query())
    ledger.remove(other)
    assert [row.id for row in selection] == [SINGLE]
