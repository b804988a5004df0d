"""The ledger's file when it is new, old, newer, damaged, foreign or not to be written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from unit.tracking.build import NOW, group, run

from gofer.errors import LedgerCorrupt, LedgerError
from gofer.tracking.connection import MIGRATIONS, is_current, migrate
from gofer.tracking.ledger import Event, Ledger
from gofer.tracking.query import Query

GOLDEN_V1 = Path(__file__).with_name("golden_v1.sql")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "gofer" / "ledger.db"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(GOLDEN_V1.read_text())
    connection.close()
    return path


def schema(path: Path) -> set[tuple[str, str]]:
    connection = sqlite3.connect(path)
    lines = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {(name, " ".join(sql.replace("(", " ( ").replace(")", " ) ").split())) for name, sql in lines}


def test_a_new_ledger_is_private_and_in_wal(path: Path) -> None:
    old_mask = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            ledger.insert([run()])
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(old_mask)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_an_old_record_of_a_folder_that_is_not_utf8_is_no_obstacle(golden: Path) -> None:
    connection = sqlite3.connect(golden)
    connection.execute("UPDATE runs SET submitter = ''")
    record = b'{"code":{"folder":"/x\\udcff"}}'
    connection.execute("UPDATE records SET record = ?", [record])
    connection.commit()
    connection.close()
    with Ledger.open(golden) as ledger:
        assert {row.project for row in ledger.select(Query(include_rows=True))} == {""}


def test_an_empty_file_is_a_new_ledger(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()
    with Ledger.open(path) as ledger:
        ledger.insert([run()])
        assert len(ledger.select(Query())) == 1


def test_garbage_is_corrupt(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is not a database\n" * 1000)
    with pytest.raises(LedgerCorrupt, match="damaged") as caught:
        Ledger.open(path)
    assert str(path) in caught.value.message
    assert caught.value.hint == "`gofer ledger rebuild`"
    assert path.read_bytes().startswith(b"this is not")


def test_a_schema_with_bytes_that_are_no_text_is_corrupt(path: Path) -> None:
    Ledger.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    damaged = path.read_bytes().replace(b"CREATE TABLE runs", b"CREATE \xd9\xd9BLE runs")
    path.write_bytes(damaged)
    with pytest.raises(LedgerCorrupt, match="damaged"):
        Ledger.open(path).select(Query())


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_file_cut_in_the_middle_is_corrupt(path: Path, part: float) -> None:
    with Ledger.open(path) as ledger:
        ledger.insert(group("r261116-091233-gggggg", 500))
    size = path.stat().st_size
    os.truncate(path, int(size * part))
    with pytest.raises(LedgerCorrupt):
        Ledger.open(path)


def test_damage_in_the_middle_is_found_when_it_is_read(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.insert([run(f"r261116-091233-{i:06}", submitted_at=NOW + i) for i in range(500)])
        ledger.check()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))
    with Ledger.open(path) as ledger:
        with pytest.raises(LedgerCorrupt):
            ledger.check()
        with pytest.raises(LedgerCorrupt):
            ledger.select(Query())
        with pytest.raises(LedgerCorrupt):
            ledger.insert([run()])


def test_a_newer_ledger_is_refused_and_left_alone(path: Path) -> None:
    Ledger.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=f"schema version {len(MIGRATIONS) + 1}") as caught:
        Ledger.open(path)
    assert not isinstance(caught.value, LedgerCorrupt)
    assert "upgrade gofer" in (caught.value.hint or "")
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with pytest.raises(LedgerError, match="another program"):
        Ledger.open(path)
    assert {name for name, _ in schema(path)} == {"bookmarks"}


def test_the_oldest_ledger_opens_with_its_runs(golden: Path, path: Path) -> None:
    with Ledger.open(golden) as ledger:
        row = ledger.get(run().id)
        events = ledger.events(run().id)
    assert row == run(
        state="failed",
        reason="exit-code",
        detail="exit code 3",
        exit_code=3,
        gpus=2,
        procs=2,
        priority=5,
        started_at=NOW + 1.5,
        ended_at=NOW + 7,
        elapsed_s=5.5,
        attempts=[{"number": 1, "state": "failed"}],
        snapshot="abcd",
        tags={"lr": "0.1"},
        record=b"{}",
        observed_at=NOW + 8,
    )
    assert events == [Event(NOW, "recorded", {})]
    Ledger.open(path).close()
    assert schema(golden) == schema(path)


def next_version() -> tuple[tuple[str, ...], ...]:
    return (*MIGRATIONS, ("ALTER TABLE runs ADD COLUMN place TEXT", "UPDATE runs SET place = name || '!'"))


def test_a_migration_changes_an_older_file_once(golden: Path) -> None:
    Ledger.open(golden).close()
    connection = sqlite3.connect(golden, isolation_level=None)
    for _ in range(2):
        migrate(connection, golden, next_version())
        assert is_current(connection, golden, next_version())
        assert connection.execute("SELECT id, place FROM runs").fetchall() == [(run().id, "train!")]
    connection.close()
    with pytest.raises(LedgerError, match="schema version"):
        Ledger.open(golden)


def test_a_migration_that_fails_leaves_the_file_as_it_was(golden: Path) -> None:
    Ledger.open(golden).close()
    before = schema(golden)
    connection = sqlite3.connect(golden, isolation_level=None)
    broken = (*next_version(), ("CREATE TABLE more (x)", "this is not SQL"))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, golden, broken)
    connection.close()
    assert schema(golden) == before
    with Ledger.open(golden) as ledger:
        assert ledger.get(run().id) is not None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot open the ledger") as caught:
        Ledger.open(tmp_path / "file" / "gofer" / "ledger.db")
    assert "GOFER_HOME" in (caught.value.hint or "")


def test_a_ledger_that_is_a_folder(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LedgerError, match="ledger"):
        Ledger.open(path)


def test_an_older_ledger_learns_the_projects_of_the_runs_that_this_person_sent(golden: Path) -> None:
    connection = sqlite3.connect(golden)
    for number, submitter in enumerate(("1:2:boot@here", "@elsewhere")):
        key = f"r261116-09123{number}-cccccc"
        columns = "id, kind, name, target, backend, store, state, command, args, gpus, nodes, procs, priority"
        columns += ", submitted_at, attempts, tags, counts, size, submitter"
        values = (key, "run", "n", "lab", "slurm", "file:///s", "failed", "[]", "{}", 0, 1, 1, 0, NOW, "[]")
        connection.execute(
            f"INSERT INTO runs ({columns}) VALUES ({', '.join('?' * 19)})",
            (*values, "{}", "{}", 1, submitter),
        )
        record = b'{"code": {"folder": "/home/ann/x"}}'
        connection.execute("INSERT INTO records VALUES (?, ?)", (key, record))
    connection.execute("UPDATE records SET record = x'00ff' WHERE id LIKE '%bbbbbb'")
    connection.commit()
    connection.close()
    with Ledger.open(golden) as ledger:
        projects = {row.id: row.project for row in ledger.select(Query())}
    assert projects == {
        "r261116-091230-cccccc": "/home/ann/x",
        "r261116-091231-cccccc": "",
        run().id: "",
    }


def test_the_newest_of_a_project_is_found_by_an_index(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.insert(
            [run(f"r261116-09123{n}-bbbbbb", submitted_at=NOW + n, project="ab"[n % 2]) for n in range(6)]
        )
        assert [row.id[13:14] for row in ledger.newest(project="a", most=2)] == ["4", "2"]
        assert [row.id[13:14] for row in ledger.newest(most=2)] == ["5", "4"]
        assert ledger.newest(project="c") == []
    connection = sqlite3.connect(path)
    sql = "SELECT id FROM runs WHERE group_id IS NULL AND project = ? ORDER BY submitted_at DESC, id DESC"
    plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ["a"]).fetchall()
    connection.close()
    assert [line[3] for line in plan] == ["SEARCH runs USING INDEX runs_by_project (project=?)"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("command", "{"),
        ("command", '["a", 1]'),
        ("args", "[]"),
        ("attempts", "[1]"),
        ("attempts", '[{"number": 1}]'),
        ("attempts", '[{"number": "x", "state": "failed"}]'),
        ("tags", '{"a": 1}'),
        ("tags", '{"a":' * 100_000),
        ("counts", '{"a": "x"}'),
        ("submitted_at", b"\0"),
        ("elapsed_s", "long"),
        ("gpus", 1.5),
        ("name", b"\xff"),
    ],
)
def test_a_line_that_gofer_cannot_have_written_is_damage(path: Path, column: str, value: object) -> None:
    with Ledger.open(path) as ledger:
        ledger.insert([run()])
        ledger.add_event(run().id, NOW, "x", {})
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE runs SET {column} = ?", [value])
    with Ledger.open(path) as ledger:
        for read in (
            lambda: ledger.get(run().id),
            lambda: ledger.select(Query()),
            lambda: ledger.resolve("last"),
            ledger.check,
        ):
            with pytest.raises(LedgerCorrupt, match="is damaged") as caught:
                read()
            assert caught.value.hint == "`gofer ledger rebuild`"


@pytest.mark.parametrize(
    ("column", "value"), [("data", "["), ("data", "[]"), ("at", "x"), ("data", "[" * 100_000)]
)
def test_an_event_that_gofer_cannot_have_written_is_damage(path: Path, column: str, value: object) -> None:
    with Ledger.open(path) as ledger:
        ledger.insert([run()])
        ledger.add_event(run().id, NOW, "x", {})
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE events SET {column} = ?", [value])
    with Ledger.open(path) as ledger, pytest.raises(LedgerCorrupt, match="is damaged"):
        ledger.events(run().id)
