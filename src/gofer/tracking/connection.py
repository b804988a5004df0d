"""Creates, opens and locks the file of the ledger, brings its tables up to date, and explains the errors of
SQLite.

The tables are a sequence of migrations. Never edit a migration that has been released: add another one, and
keep the old schema as a golden file in tests/unit/tracking.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gofer.core import private_folder
from gofer.core.retry import backoff, retry, retry_if
from gofer.errors import LedgerCorrupt, LedgerError
from gofer.tracking.rows import DamagedLine

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

# The name under which the cluster knows the run: the number of a Slurm job.
_V3 = ("ALTER TABLE runs ADD COLUMN service_id TEXT NOT NULL DEFAULT ''",)

# The key that proves a result to be that of the run, for runs of functions. It is in no record and no store.
_V4 = ("CREATE TABLE result_keys (id TEXT NOT NULL PRIMARY KEY, key BLOB NOT NULL) WITHOUT ROWID",)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_V1, _V2, _V3, _V4)

BUSY_TIMEOUT_S = 30.0

_ELSEWHERE = "free some space or correct the permissions, or set GOFER_HOME to a writable folder"
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# The messages of SQLite and the sqlite3 module about text that gofer did not write.
_NOT_TEXT = ("Could not decode to UTF-8", "malformed JSON")
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
}


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


def connect(path: Path) -> sqlite3.Connection:
    """Open the ledger in WAL mode with the newest schema; create it with its folders (0700, the file 0600).

    Several processes may do this at once for a file that does not exist yet. Blocking.
    """
    with explained(path):
        _make_file(path)
        # isolation_level=None: gofer begins and ends its transactions itself.
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system inside the block into the LedgerError family."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except (DamagedLine, UnicodeDecodeError) as error:
        # SQLite quotes bytes of a damaged schema in its message, and sqlite3 fails to decode that message.
        raise _damaged(path, error) from error
    except OSError as error:
        raise LedgerError(
            f"cannot open the ledger {path}: {error.strerror or error}", hint=_ELSEWHERE
        ) from error


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path, *, durable: bool) -> Iterator[None]:
    """Run the block in a transaction. One writer at a time; waits up to BUSY_TIMEOUT_S for others.

    A killed process leaves no partial change. With `durable`, the change also survives a power cut.
    """
    with explained(path):
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _make_file(path: Path) -> None:
    private_folder.make(str(path.parent))
    if not path.exists():
        # Created here and not by SQLite, which would use the umask.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Prepare a connection, waiting for other processes.

    The wait is gofer's own, because SQLite's busy timeout does not apply to the change to WAL mode.
    """

    def prepare() -> None:
        if not is_current(connection, path):
            connection.execute("PRAGMA journal_mode = WAL")
            migrate(connection, path)

    pauses = retry_if(lambda error: _code(error) in _BUSY, backoff(0.01, factor=1.0))
    retry(prepare, errors=sqlite3.OperationalError, pause_s=pauses, patience_s=BUSY_TIMEOUT_S)


def _explain(path: Path, error: sqlite3.Error) -> LedgerError:
    code = _code(error)
    if code in _CORRUPT or str(error).startswith(_NOT_TEXT):
        return _damaged(path, error)
    if code in _BUSY:
        return LedgerError(
            f"another process locked the ledger {path} for {BUSY_TIMEOUT_S:.0f} s",
            hint="end the process that locks it and try again",
        )
    if code in _UNWRITABLE:
        return LedgerError(f"cannot write the ledger {path}: {error}", hint=_ELSEWHERE)
    return LedgerError(f"the ledger {path} failed: {error}")


def _damaged(path: Path, error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(f"the ledger {path} is damaged: {error}", hint="`gofer ledger rebuild`")


def _code(error: sqlite3.Error) -> int:
    """The primary result code, which is the low byte of the extended one."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
