"""The tables of the ledger as a sequence of migrations, and the code that applies them to a file.

Never edit a migration that has been released: add another one, and keep the old schema as a golden file in
tests/unit/tracking.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from gofer.errors import LedgerError

APPLICATION_ID = 0x676F6672  # "gofr", so that another program's database is not taken for a ledger

_V1 = (
    """
    CREATE TABLE runs (
        id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, group_id TEXT, row_index INTEGER,
        name TEXT NOT NULL, target TEXT NOT NULL, backend TEXT NOT NULL, store TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT, detail TEXT, exit_code INTEGER,
        command TEXT NOT NULL, args TEXT NOT NULL,
        gpus INTEGER NOT NULL, nodes INTEGER NOT NULL, procs INTEGER NOT NULL, priority INTEGER NOT NULL,
        submitted_at REAL NOT NULL, started_at REAL, ended_at REAL, elapsed_s REAL,
        attempts TEXT NOT NULL, snapshot TEXT, tags TEXT NOT NULL, counts TEXT NOT NULL,
        size INTEGER NOT NULL, submitter TEXT NOT NULL, observed_at REAL
    )
    """,
    "CREATE INDEX runs_by_time ON runs (submitted_at, id) WHERE group_id IS NULL",
    "CREATE INDEX runs_by_state ON runs (state, submitted_at, id)",
    "CREATE INDEX runs_by_group ON runs (group_id, row_index) WHERE group_id IS NOT NULL",
    "CREATE TABLE records (id TEXT NOT NULL PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE events (run_id TEXT NOT NULL, at REAL NOT NULL, event TEXT NOT NULL, data TEXT NOT NULL)",
    "CREATE INDEX events_by_run ON events (run_id)",
    f"PRAGMA application_id = {APPLICATION_ID}",
)

# The project of a run is the folder from which it was submitted. A run found in a store has none, and a row
# of a group has none. Only lines that this user's submissions wrote are used: `submitter` of other lines
# begins with `@`. A folder whose name is not UTF-8 is an escape in the record, which SQLite would turn into
# text that cannot be read again; such an old run gets no project.
_V2 = (
    "ALTER TABLE runs ADD COLUMN project TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN definition TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE definitions (id TEXT NOT NULL PRIMARY KEY, store TEXT NOT NULL, data TEXT NOT NULL) "
    "WITHOUT ROWID",
    """
    UPDATE runs SET project = coalesce((
        SELECT json_extract(CAST(record AS TEXT), '$.code.folder') FROM records
        WHERE records.id = runs.id AND json_valid(CAST(record AS TEXT))
            AND instr(CAST(record AS TEXT), '\\udc') = 0
    ), '') WHERE group_id IS NULL AND submitter NOT LIKE '@%'
    """,
    "CREATE INDEX runs_by_project ON runs (project, submitted_at, id) WHERE group_id IS NULL",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_V1, _V2)


def is_current(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> bool:
    """Whether the file needs no migration; LedgerError when a newer gofer wrote it."""
    version = _version(connection)
    if version > len(migrations):
        raise LedgerError(
            f"the ledger {path} has schema version {version}, but this gofer supports only {len(migrations)}",
            hint="upgrade gofer on this machine, or set GOFER_HOME to another folder",
        )
    return version == len(migrations)


def migrate(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Bring the file from any older version to the newest one, in one transaction.

    Several processes may do this at once: the version is read again under the write lock.
    """
    # IMMEDIATE takes the write lock now; a later upgrade of a read lock could fail.
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not is_current(connection, path, migrations):
            version = _version(connection)
            # Version 0 is an empty file, or a database of another program that does not use user_version.
            if version == 0 and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise LedgerError(
                    f"{path} is a database of another program, not a gofer ledger",
                    hint="move it away, or set GOFER_HOME to another folder",
                )
            for statement in (statement for step in migrations[version:] for statement in step):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
