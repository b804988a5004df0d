"""All of a run in one folder: the code it ran, its logs, its outputs, its other files, its record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.core import run_layout as names
from gofer.core.files import encode, read_json, write_whole
from gofer.errors import UsageError
from gofer.model.decode import decode
from gofer.node.kept.records import FILES, OUTPUTS
from gofer.ops.files import run_files
from gofer.ops.logs import service_logs
from gofer.ops.logs.logs import is_record
from gofer.ops.logs.mirror import mirror
from gofer.ops.runs.adopt import is_adopted

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

RECORD = "run.json"


class Extracted(NamedTuple):
    """How many files of each kind the folder holds now, what failed, and what no copy can be made of.

    `kept_files` are those that the command wrote beside its code. Each of `failed` and `left_out` is a path
    in the folder and the reason.
    """

    code_files: int
    log_files: int
    output_files: int
    kept_files: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def extract(session: Session, row: RunRow, folder: Path, *, force: bool = False) -> Extracted:
    """Bring a run to code, logs, outputs and files in `folder`; of a group, code, and the others by row.

    UsageError when the folder has something in it already, unless `force`: then only what is new is read, and
    what else lies there is left alone, but never two runs in one folder. Each file but a log is written whole
    or not at all. What cannot be read is named, and the rest comes. Of a job that gofer did not start there
    are the logs that its service keeps.
    """
    _check_folder(folder, row, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    _write_record(session, row, folder)
    if is_adopted(row):
        return Extracted(0, len(service_logs.fetch(session, row, folder / "logs")), 0)
    store = session.runs_in(row.store)
    code = 0 if row.snapshot is None else _restore(store, row, row.snapshot, folder / "code")
    if row.kind == "run":
        found = _bring(session, row, folder, Path())
        # The service's own are all there is of a run that never started.
        logs = found.log_files or len(service_logs.fetch(session, row, folder / "logs"))
        return found._replace(code_files=code, log_files=logs)
    rows = _with_folder(session, store, row)
    return _sum(code, [_bring(session, one, folder, Path(str(one.row_index))) for one in rows])


def _sum(code: int, parts: Sequence[Extracted]) -> Extracted:
    return Extracted(
        code,
        sum(one.log_files for one in parts),
        sum(one.output_files for one in parts),
        sum(one.kept_files for one in parts),
        tuple(line for one in parts for line in one.failed),
        tuple(line for one in parts for line in one.left_out),
    )


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
    record = decode(owner.record, dict[str, Any]) if owner is not None else None
    record = record or {"id": row.group_id or row.id}
    which = {} if row.row_index is None else {"row": row.row_index}
    write_whole(str(folder / RECORD), encode({**record, **which}) + b"\n")


def _with_folder(session: Session, store: Store, group: RunRow) -> Sequence[RunRow]:
    """The rows that ever started; the others have nothing to bring."""
    present = set(store.list_folders(names.RUNS))
    return [one for one in session.ledger.rows_of(group.id) if one.id in present]


def _bring(session: Session, row: RunRow, folder: Path, below: Path) -> Extracted:
    """Everything but the code of one run, to the place `below` the folder."""
    from gofer.ops.files.node_copies import bring_copies

    store, home = session.runs_in(row.store), folder / below
    logs = mirror(store, names.attempts_key(row.id), home / "logs", is_record)
    outputs = run_files.bring(store, row.id, OUTPUTS, home / OUTPUTS)
    files = run_files.bring(store, row.id, FILES, home / FILES)
    files = files.plus(bring_copies(session, row, home / FILES))
    both = outputs.moved(str(below / OUTPUTS)).plus(files.moved(str(below / FILES)))
    return Extracted(0, len(logs.paths), outputs.files, files.files, both.failed, both.left_out)


def _restore(store: Store, row: RunRow, snapshot: str, folder: Path) -> int:
    """How many files the code has. It appears whole or not at all, so one that is there is not touched."""
    from gofer.snapshot import restore

    if not folder.exists():
        times_key = names.times_key(row.group_id or row.id)
        has_times = store.head(times_key) is not None
        restore(store, snapshot, folder, times_key=times_key if has_times else None)
        # Beside the code lies a mark for nodes that share a copy; here it would only puzzle people.
        folder.with_name(f"{folder.name}.snapshot").unlink(missing_ok=True)
    return sum(len(files) for _, _, files in os.walk(folder))
