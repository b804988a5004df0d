"""Look up the secrets of a run on this machine again, so that gofer masks them when it prints a log."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.core.secrets.mask import NO_SECRETS, SecretMask
from gofer.errors import GoferError
from gofer.model.run import RunRecord
from gofer.ops.runs.run_folder import decode

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_MOST_FILES = 100


def mask_of(session: Session, row: RunRow) -> SecretMask:
    """A mask for the secret values of the job's `env`, such as that of `${secret:NAME}`, and of its files.

    A record holds references and paths, not values. So a value that this machine cannot look up, or that has
    changed, is not masked.
    """
    owner = session.ledger.get(row.group_id or row.id)
    if owner is None or (b"${" not in owner.record and b"secret_files" not in owner.record):
        return NO_SECRETS
    record = decode(owner.record, RunRecord)
    if record is None:
        return NO_SECRETS
    return SecretMask([*_variables(session, record), *_in_files(record)])


def _variables(session: Session, record: RunRecord) -> Iterator[str]:
    from gofer.config.references import is_secret

    for name, text in record.job.env.items():
        with suppress(GoferError):
            if is_secret(name, text):
                yield session.settings.resolve(text)


def _in_files(record: RunRecord) -> Iterator[str]:
    """The values in the secret files of a run, as the files are in the project now."""
    origin = record.code
    if origin is None or not origin.secret_files:
        return
    from gofer.core.secrets import secret_files
    from gofer.core.secrets.secret_files import MOST_BYTES, values_of

    found: dict[str, bytes] = {}
    for path in origin.secret_files[:_MOST_FILES]:
        with suppress(OSError, ValueError):
            found[path] = _read(os.path.join(origin.folder, path), MOST_BYTES)
    yield from values_of(secret_files.encode(found))


def _read(path: str, length: int) -> bytes:
    """The beginning of a file; OSError if it is not a regular file. Does not wait for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read(length)
