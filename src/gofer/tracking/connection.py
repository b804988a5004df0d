"""The ledger's file: made, opened, locked; SQLite's errors in words a person can act on."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gofer.core import private_folder
from gofer.errors import LedgerCorrupt, LedgerError
from gofer.tracking.rows import DamagedLine
from gofer.tracking.schema import is_current, migrate

BUSY_TIMEOUT_S = 30.0

_ELSEWHERE = "free space or mend the permissions, or set GOFER_HOME to a folder you can write"
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# What SQLite and the sqlite3 module say of text that gofer did not write.
_NOT_TEXT = ("Could not decode to UTF-8", "malformed JSON")
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
}


def connect(path: Path) -> sqlite3.Connection:
    """Open the ledger, made with its folders (0700, the file 0600) when absent, in WAL, at the last schema.

    Several processes may do this at once on a file that does not exist yet.
    """
    with explained(path):
        _make_file(path)
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the file system inside the block into the LedgerError family."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except DamagedLine as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise LedgerError(
            f"cannot open the ledger {path}: {error.strerror or error}", hint=_ELSEWHERE
        ) from error


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path, *, durable: bool) -> Iterator[None]:
    """All or nothing, one writer at a time; waits up to BUSY_TIMEOUT_S for the others.

    A killed process never leaves a part behind. With `durable` not even a power cut takes it back.
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
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite does not wait for its lock where it turns a file to WAL, so that wait is ours."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            if not is_current(connection, path):
                connection.execute("PRAGMA journal_mode = WAL")
                migrate(connection, path)
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _explain(path: Path, error: sqlite3.Error) -> LedgerError:
    code = _code(error)
    if code in _CORRUPT or str(error).startswith(_NOT_TEXT):
        return _damaged(path, error)
    if code in _BUSY:
        return LedgerError(
            f"the ledger {path} was held by another process for {BUSY_TIMEOUT_S:.0f} s",
            hint="end the process that holds it and try again",
        )
    if code in _UNWRITABLE:
        return LedgerError(f"cannot write the ledger {path}: {error}", hint=_ELSEWHERE)
    return LedgerError(f"the ledger {path} failed: {error}")


def _damaged(path: Path, error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(f"the ledger {path} is damaged: {error}", hint="`gofer ledger rebuild`")


def _code(error: sqlite3.Error) -> int:
    """The primary result code: the low byte of the extended one."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
