"""The queue's file: idempotent, all or nothing, in order, set aside when damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gofer.core.node_request import decode
from gofer.core.outcome import Outcome, attempt_record
from gofer.core.states import State
from gofer.queue.database import OWN_GRACE, Queue, QueueFile, RequestFields


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    one = Queue(str(tmp_path / "engine"))
    yield one
    one.close()


def body(request_id: str, *, priority: int = 0) -> RequestFields:
    return {"id": request_id, "priority": priority}


def add_array(queue: Queue, request_id: str, rows: int) -> None:
    queue.add(body(request_id), [(f"{request_id}-{row}", row, {"x": str(row)}) for row in range(rows)])


def ids(queue: Queue) -> list[str]:
    return [entry.id for entry in queue.load_open()]


def end(queue: Queue, run_id: str) -> None:
    (entry,) = [one for one in queue.load_open() if one.id == run_id]
    entry.state = "succeeded"
    queue.save([entry])


def test_adding_twice_is_adding_once(queue: Queue) -> None:
    assert queue.add(body("r1"), [("r1", None, None)])
    assert not queue.add({**body("r1"), "priority": 3}, [("r1", None, None)])
    assert ids(queue) == ["r1"]
    assert queue.load_request("r1") == decode(body("r1"))


def test_a_request_is_added_whole_or_not_at_all(queue: Queue) -> None:
    queue.add(body("r1"), [("r1", None, None)])
    with pytest.raises(sqlite3.IntegrityError):
        queue.add(body("r2"), [("r2-0", 0, {}), ("r1", 1, {})])
    assert ids(queue) == ["r1"]
    assert queue.add(body("r2"), [("r2-0", 0, {})])


def test_only_one_of_two_connections_adds(queue: Queue) -> None:
    other = Queue(queue.queue_home)
    assert [one.add(body("r1"), [("r1", None, None)]) for one in (queue, other)] == [True, False]
    other.close()


def test_a_change_by_another_is_noticed(queue: Queue) -> None:
    before = queue.version()
    assert queue.version() == before
    other = Queue(queue.queue_home)
    other.add(body("r1"), [("r1", None, None)])
    assert queue.version() != before
    other.close()


def test_what_was_saved_is_loaded(queue: Queue) -> None:
    add_array(queue, "g1", 1)
    (entry,) = queue.load_open()
    assert (entry.args, entry.row, entry.request, entry.state) == ({"x": "0"}, 0, "g1", "queued")
    entry.state, entry.attempt, entry.gpus, entry.boot = "running", 2, [[0, 1], [2, 3]], "boot"
    attempt = attempt_record(1, Outcome(State.FAILED), [[0, 1], [2, 3]], 1.0)
    entry.attempts.append(attempt)
    queue.save([entry])
    (again,) = queue.load_open()
    assert (again.state, again.attempt, again.gpus, again.boot) == ("running", 2, [[0, 1], [2, 3]], "boot")
    assert again.attempts == [attempt]


def test_the_order_is_priority_then_arrival(queue: Queue) -> None:
    for run_id, priority in [("low", -1), ("first", 0), ("second", 0), ("high", 7)]:
        queue.add(body(run_id, priority=priority), [(run_id, None, None)])
    ordered = sorted(queue.load_open(), key=lambda one: one.order)
    assert [one.id for one in ordered] == ["high", "first", "second", "low"]
    assert [queue.waiting_ahead(one.id) for one in ordered] == [0, 1, 2, 3]


def test_cancels_reach_runs_rows_and_groups_that_are_open(queue: Queue) -> None:
    queue.add(body("r1"), [("r1", None, None)])
    add_array(queue, "g1", 3)
    add_array(queue, "g2", 2)
    end(queue, "g1-0")
    queue.ask_cancel(["g1", "g2-1", "unknown"], 2.5)
    assert queue.load_cancels() == [("g1-1", 2.5), ("g1-2", 2.5), ("g2-1", 2.5)]
    queue.ask_cancel(["r1"], None)
    assert dict(queue.load_cancels())["r1"] == OWN_GRACE


def test_observing_a_group_tells_of_all_its_rows_and_unknown_ids_are_left_out(queue: Queue) -> None:
    queue.add(body("r1"), [("r1", None, None)])
    add_array(queue, "g1", 2)
    assert [seen.id for seen in queue.observe(["r1", "g1", "nobody", "g1-1"])] == [
        "r1",
        "g1-0",
        "g1-1",
        "g1-1",
    ]


def test_a_damaged_file_is_set_aside_and_a_new_one_begun(queue: Queue, tmp_path: Path) -> None:
    queue.add(body("r1"), [("r1", None, None)])
    queue.close()
    path = Path(queue.path)
    path.write_bytes(b"this is not a database, nor was it ever one" * 100)
    again = Queue(queue.queue_home)
    assert ids(again) == []
    again.close()
    kept = [one.name for one in path.parent.iterdir() if ".damaged-" in one.name]
    assert any(name.startswith("queue.db.damaged-") for name in kept)


def test_a_schema_with_bytes_that_are_no_text_is_damage(queue: Queue) -> None:
    queue.add(body("r1"), [("r1", None, None)])
    queue.close()
    connection = sqlite3.connect(queue.path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    path = Path(queue.path)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE runs", b"CREATE \xd9\xd9BLE runs"))
    again = Queue(queue.queue_home)
    assert ids(again) == []
    again.close()


def test_the_file_is_private(queue: Queue) -> None:
    assert Path(queue.path).stat().st_mode & 0o777 == 0o600
    assert Path(queue.queue_home).stat().st_mode & 0o777 == 0o700


def test_a_new_queue_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "queue.db")
    maker = sqlite3.connect(path, isolation_level=None)
    maker.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(lambda: QueueFile(path).open().close())
        with pytest.raises(TimeoutError):
            opened.result(timeout=0.5)
        maker.execute("ROLLBACK")
        assert opened.result(timeout=60) is None
    maker.close()


def test_only_a_file_that_is_damaged_is_set_aside(tmp_path: Path) -> None:
    file = QueueFile(str(tmp_path / "queue.db"))
    file.open().close()
    error = sqlite3.DatabaseError("database disk image is malformed")
    assert file.set_aside_if(error)
    assert not list(tmp_path.glob("*.damaged-*"))
    (tmp_path / "queue.db").write_bytes(b"no database" * 1000)
    assert file.set_aside_if(error)
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1 and not (tmp_path / "queue.db").exists()
