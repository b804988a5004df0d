"""All of a run in one folder: the code it ran, its logs, its outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.agent import folder as names
from gofer.errors import UsageError
from gofer.ops.logs import is_record
from gofer.ops.mirror import mirror
from gofer.storage.base import OnDisk

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


class Extracted(NamedTuple):
    """How many files of each kind the folder holds now."""

    code_files: int
    log_files: int
    output_files: int


def extract(session: Session, row: RunRow, folder: Path, *, force: bool = False) -> Extracted:
    """Bring a run to code, logs and outputs in `folder`; of a group, to code, and to logs and outputs in <row>.

    UsageError when the folder has something in it already, unless `force`: then only what is new is read, and
    what else lies there is left alone. Each file but a log is written whole or not at all.
    """
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"`{folder}` is not an empty folder", hint="name another, or add `--force` to bring it up to date"
        )
    store = session.store(row.store)
    folder.mkdir(parents=True, exist_ok=True)
    code = 0 if row.snapshot is None else _restore(store, row.snapshot, folder / "code")
    if row.kind == "run":
        logs, outputs = _bring(store, row.id, folder)
        return Extracted(code, logs, outputs)
    parts = [_bring(store, one.id, folder / str(one.row_index)) for one in _with_folder(session, store, row)]
    return Extracted(code, sum(logs for logs, _ in parts), sum(outputs for _, outputs in parts))


def _with_folder(session: Session, store: Store, group: RunRow) -> Sequence[RunRow]:
    """The rows that ever started; the others have nothing to bring."""
    present = set(store.list_folders(names.RUNS))
    return [one for one in session.ledger.rows_of(group.id) if one.id in present]


def _bring(store: Store, run_id: str, folder: Path) -> tuple[int, int]:
    """(files of logs, files of outputs) of one run."""
    logs = mirror(store, names.attempts_key(run_id), folder / "logs", is_record)
    outputs = mirror(store, names.outputs_key(run_id), folder / "outputs", grows=False)
    return len(logs.paths), len(outputs.paths)


def _restore(store: Store, snapshot: str, folder: Path) -> int:
    """How many files the code has; a folder that is there already was restored whole and is not touched."""
    from gofer.agent import checkout

    if not folder.exists():
        source = str(store.path(names.SNAPSHOTS).parent) if isinstance(store, OnDisk) else store.get_range
        checkout.restore(source, snapshot, str(folder))
    return sum(len(files) for _, _, files in os.walk(folder))
