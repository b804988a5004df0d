from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.tracking.build import NOW, group, run

from gofer.errors import LedgerError, UnknownName
from gofer.tracking.ledger import Event, Ledger
from gofer.tracking.query import Query
from gofer.tracking.rows import RunRow

GROUP = "r261116-091233-gggggg"


def full_row() -> RunRow:
    return run(
        name='na"me\n\t日本',
        state="failed",
        reason="exit-code",
        detail="'; DROP TABLE runs; --",
        exit_code=-9,
        command=["sh", "-c", 'echo "$RANK a  b"', "", "new\nline", "not-utf8-\udcff"],
        args={"lr": "0.1", "näme": "\udc80"},
        gpus=8,
        nodes=2,
        procs=4,
        priority=-3,
        started_at=NOW + 0.125,
        ended_at=NOW + 1e-6,
        elapsed_s=0.1 + 0.2,
        attempts=[{"number": 1, "state": "failed", "gpus": [[0, 1], [2]]}],
        snapshot="ab" * 32,
        tags={"": "empty", "k.with \"quotes'": "", "not-utf8": "\udcfe"},
        record=bytes(range(256)),
        observed_at=NOW,
    )


def test_every_field_comes_back(ledger: Ledger) -> None:
    row = full_row()
    ledger.insert([row])
    assert ledger.get(row.id) == row
    assert ledger.select(Query(records=True)) == [row]
    assert ledger.select(Query()) == [row._replace(record=b"")]


def test_a_detail_that_is_not_utf8_is_kept_readable(ledger: Ledger) -> None:
    ledger.insert([run(detail="cannot read data/\udcff.bin")])
    found = ledger.get(run().id)
    assert found is not None
    assert found.detail == "cannot read data/\\udcff.bin"


def test_what_is_written_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.insert([run()])
    with Ledger.open(path) as ledger:
        assert ledger.get(run().id) == run()
        assert ledger.get("r261116-091233-nobody") is None


def test_an_id_that_is_taken_stops_the_whole_insert(ledger: Ledger) -> None:
    ledger.insert([run("r261116-091233-aaaaaa")])
    with pytest.raises(LedgerError, match="already has the run `r261116-091233-aaaaaa`"):
        ledger.insert([run("r261116-091233-bbbbbb"), run("r261116-091233-aaaaaa")])
    with pytest.raises(LedgerError, match="same id"):
        ledger.insert([run("r261116-091233-cccccc"), run("r261116-091233-cccccc")])
    assert [row.id for row in ledger.select(Query())] == ["r261116-091233-aaaaaa"]


def test_groups_and_their_rows(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 12))
    head = ledger.get(GROUP)
    assert head is not None
    assert (head.state, head.counts, head.size, head.record) == ("pending", {"pending": 12}, 12, run().record)
    rows = ledger.rows_of(GROUP)
    assert [row.row_index for row in rows] == list(range(12))
    assert rows[7].args == {"i": "7"}
    assert ledger.rows_of(GROUP, {"failed", "lost"}) == []
    assert len(ledger.rows_of(GROUP, ["pending"])) == 12
    assert ledger.rows_of(GROUP, []) == []


def test_a_group_is_the_sum_of_its_rows_whatever_it_says_of_itself(ledger: Ledger) -> None:
    head, *rows = group(GROUP, 3)
    ended = [
        row._replace(state="succeeded", started_at=NOW + i, ended_at=NOW + 9 - i)
        for i, row in enumerate(rows)
    ]
    ledger.insert([head._replace(state="running", counts={"running": 3}), *ended])
    found = ledger.get(GROUP)
    assert found is not None
    assert (found.state, found.counts) == ("succeeded", {"succeeded": 3})
    assert (found.started_at, found.ended_at, found.elapsed_s) == (NOW, NOW + 9, 9)


def test_active_are_runs_and_rows_that_may_still_change(ledger: Ledger) -> None:
    states = ["pending", "queued", "paused", "starting", "running", "unknown"]
    states += ["succeeded", "failed", "cancelled", "lost"]
    for i, state in enumerate(states):
        ledger.insert([run(f"r261116-091233-{i:06}", state=state, target="lab" if i % 2 else "local")])
    ledger.insert(group(GROUP, 2, submitted_at=NOW + 1, target="lab"))
    active = ledger.active()
    assert [row.state for row in active] == [*states[:6], "pending", "pending"]
    assert [row.id for row in active][6:] == [f"{GROUP}-0", f"{GROUP}-1"]
    assert active[0].record == b""
    assert [row.state for row in ledger.active("local")] == ["pending", "paused", "running"]


def test_tags_are_replaced_whole(ledger: Ledger) -> None:
    ledger.insert([run(tags={"old": "1"})])
    ledger.set_tags(run().id, {"new": "2"})
    found = ledger.get(run().id)
    assert found is not None
    assert found.tags == {"new": "2"}
    with pytest.raises(UnknownName, match="`nobody`"):
        ledger.set_tags("nobody", {})


def test_events_in_the_order_they_were_written(ledger: Ledger) -> None:
    ledger.add_event("r1", NOW, "recorded", {})
    ledger.add_event("r2", NOW, "recorded", {"x": [1, None]})
    ledger.add_event("r1", NOW - 5, "sent", {"by": "näme"})
    assert ledger.events("r1") == [Event(NOW, "recorded", {}), Event(NOW - 5, "sent", {"by": "näme"})]
    assert ledger.events("r2") == [Event(NOW, "recorded", {"x": [1, None]})]
    assert ledger.events("r3") == []


def test_replace_all(ledger: Ledger) -> None:
    old, kept = run("r261116-091233-oooooo"), run("r261116-091233-kkkkkk")
    ledger.insert([old, kept])
    for row in (old, kept):
        ledger.add_event(row.id, NOW, "recorded", {})
    ledger.replace_all([kept._replace(state="failed"), *group(GROUP, 2)])
    assert ledger.get(old.id) is None
    assert ledger.get(kept.id) == kept._replace(state="failed")
    assert len(ledger.rows_of(GROUP)) == 2
    assert ledger.events(old.id) == []
    assert len(ledger.events(kept.id)) == 1


def test_replace_all_is_all_or_nothing(ledger: Ledger) -> None:
    ledger.insert([run()])
    with pytest.raises(LedgerError):
        ledger.replace_all([run("r261116-091233-xxxxxx"), run("r261116-091233-xxxxxx")])
    assert ledger.select(Query(records=True)) == [run()]


def steps(ledger: Ledger, act: Callable[[], object]) -> int:
    """How many instructions SQLite takes for it: the same on every machine, in hundreds."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 100
        return 0

    ledger._connection.set_progress_handler(tick, 100)
    try:
        act()
    finally:
        ledger._connection.set_progress_handler(None, 0)
    return count


def test_a_group_of_10000_rows_is_recorded_in_few_steps(ledger: Ledger) -> None:
    rows = group(GROUP, 10_000, command=["python", "train.py", "--lr", "0.1"], tags={"sweep": "first"})
    assert steps(ledger, lambda: ledger.insert(rows)) < 200 * 10_000
    assert len(ledger.rows_of(GROUP)) == 10_000


def test_the_default_listing_of_10000_runs_reads_what_it_shows(ledger: Ledger) -> None:
    runs = (run(f"r261116-091233-{i:06}", submitted_at=NOW + i, tags={"lr": "0.1"}) for i in range(10_000))
    ledger.insert([*runs, *group(GROUP, 10_000, submitted_at=NOW)])
    listed = ledger.select(Query(limit=20))
    assert [row.submitted_at for row in listed] == [NOW + 9_999 - i for i in range(20)]
    assert steps(ledger, lambda: ledger.select(Query(limit=20))) < 100 * 20


def test_reading_the_ledger_loads_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
import click
from pathlib import Path
from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Query
with Ledger.open(Path(sys.argv[1])) as ledger:
    ledger.select(Query(limit=20))
print(*sys.modules)
"""
    path = tmp_path / "ledger.db"
    Ledger.open(path).close()
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "gofer.tracking.ledger" in loaded
    heavy = {
        "msgspec",
        "dataclasses",
        "yaml",
        "subprocess",
        "logging",
        "asyncio",
        "gofer.model.run",
    }
    assert loaded & heavy <= _loaded_by_click()


def _loaded_by_click() -> set[str]:
    code = "import click, sqlite3, json, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
