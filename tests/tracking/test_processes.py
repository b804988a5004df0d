"""The ledger between processes: many that write, some that are killed."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from unit.tracking.build import run

from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Query

TESTS = Path(__file__).parents[1]

PREAMBLE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from pathlib import Path
from unit.tracking.build import group, run
from gofer.core.states import State
from gofer.model.run import Observation
from gofer.tracking.ledger import Ledger
path, me = Path(sys.argv[1]), sys.argv[2]
def seen(run_id, state):
    return Observation(run_id=run_id, state=State(state))
print("ready", flush=True)
sys.stdin.readline()
"""

WRITER = (
    PREAMBLE
    + """
with Ledger.open(path) as ledger:
    for i in range(40):
        run_id = f"r26111{me}-091233-{i:06}"
        ledger.insert([run(run_id)])
        ledger.apply([seen(run_id, "running"), seen("r261116-091233-shared", "running")], 1.0)
        ledger.add_event(run_id, 1.0, "noted", {})
        ledger.resolve(run_id)
"""
)

INSERTER = (
    PREAMBLE
    + """
with Ledger.open(path) as ledger:
    for i in range(100_000):
        ledger.insert(group(f"r26111{me}-091233-{i:06}", 200))
        print(i, flush=True)
"""
)


def start(code: str, path: Path, me: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(me)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_eight_writers_at_once_on_a_ledger_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.db"
    writers = [start(WRITER, path, me) for me in range(8)]
    for writer in writers:
        go(writer)
    ends = [(writer.communicate(timeout=100)[1], writer.returncode) for writer in writers]
    assert ends == [("", 0)] * 8
    with Ledger.open(path) as ledger:
        ledger.check()
        assert ledger.count(Query()) == 8 * 40
        assert {row.state for row in ledger.select(Query())} == {"running"}
        assert [len(ledger.events(row.id)) for row in ledger.select(Query())] == [2] * 320


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_leaves_whole_groups_only(tmp_path: Path, seed: int) -> None:
    path, chance = tmp_path / "ledger.db", random.Random(seed)
    Ledger.open(path).close()
    result = 0
    for me in range(5):
        writer = start(INSERTER, path, me)
        go(writer)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.08))
        writer.send_signal(signal.SIGKILL)
        # `communicate` would skip the lines that `readline` has read ahead.
        result += 1 + len(writer.stdout.read().splitlines())
        writer.communicate()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Ledger.open(path) as ledger:
        heads = ledger.select(Query(kinds=("group",)))
        assert result <= len(heads) <= result + 5  # each may have been killed between commit and print
        assert {len(ledger.rows_of(head.id)) for head in heads} == {200}
        assert {head.counts["pending"] for head in heads} == {200}
        ledger.insert([run()])


def test_opening_waits_for_a_process_that_is_making_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: maker.execute("ROLLBACK"))
    release.start()
    with Ledger.open(path) as ledger:
        ledger.insert([run()])
    release.join()
    maker.close()


def test_a_reader_is_not_stopped_by_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.insert([run()])
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM runs")
        assert [row.id for row in ledger.select(Query())] == [run().id]
        with Ledger.open(path) as another:
            assert another.get(run().id) == run()
        writer.execute("ROLLBACK")
        writer.close()
