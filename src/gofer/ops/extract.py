"""All of a run in one folder: the code it ran, its logs, its outputs, its record."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.agent import folder as names
from gofer.agent.files import encode, read_json, write_whole
from gofer.errors import UsageError
from gofer.ops import native_logs
from gofer.ops.adopt import is_adopted
from gofer.ops.logs import is_record
from gofer.ops.mirror import mirror

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

RECORD = "run.json"


class Extracted(NamedTuple):
    """How many files of each kind the folder holds now."""

    code_files: int
    log_files: int
    output_files: int


def extract(session: Session, row: RunRow, folder: Path, *, force: bool = False) -> Extracted:
    """Bring a run to code, logs and outputs in `folder`; of a group, code, and logs and outputs by row.

    UsageError when the folder has something in it already, unless `force`: then only what is new is read, and
    what else lies there is left alone, but never two runs in one folder. Each file but a log is written whole
    or not at all. Of a job that gofer did not start there are the logs that its service keeps.
    """
    _check_folder(folder, row, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    _write_record(session, row, folder)
    if is_adopted(row):
        return Extracted(0, len(native_logs.fetch(session, row, folder / "logs")), 0)
    store = session.runs_in(row.store)
    code = 0 if row.snapshot is None else _restore(store, row.snapshot, folder / "code")
    if row.kind == "run":
        logs, outputs = _bring(store, row.id, folder)
        # The service's own are all there is of a run that never started.
        return Extracted(code, logs or len(native_logs.fetch(session, row, folder / "logs")), outputs)
    parts = [_bring(store, one.id, folder / str(one.row_index)) for one in _with_folder(session, store, row)]
    return Extracted(code, sum(logs for logs, _ in parts), sum(outputs for _, outputs in parts))


def _check_folder(folder: Path, row: RunRow, *, force: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    held = read_json(str(folder / RECORD)) or {}
    is_same = (held.get("id"), held.get("row")) == (row.group_id or row.id, row.row_index)
    if folder.is_dir() and force and (is_same or not held):
        return
    holds = f"holds the run {held['id']}" if "id" in held else "is not an empty folder"
    raise UsageError(
        f"`{folder}` {holds}",
        hint="add `--force` to bring it up to date"
        if is_same
        else "name a folder that is empty or not there",
    )


def _write_record(session: Session, row: RunRow, folder: Path) -> None:
    """The record says which run this is, to people and to the next extraction."""
    owner = session.ledger.get(row.group_id or row.id)
    record = (
        json.loads(owner.record) if owner is not None and owner.record else {"id": row.group_id or row.id}
    )
    which = {} if row.row_index is None else {"row": row.row_index}
    write_whole(str(folder / RECORD), encode({**record, **which}) + b"\n")


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
    """How many files the code has. It appears whole or not at all, so one that is there is not touched."""
    from gofer.snapshot import restore

    if not folder.exists():
        restore(store, snapshot, folder)
        # Beside the code lies a mark for nodes that share a copy; here it would only puzzle people.
        folder.with_name(f"{folder.name}.snapshot").unlink(missing_ok=True)
    return sum(len(files) for _, _, files in os.walk(folder))
