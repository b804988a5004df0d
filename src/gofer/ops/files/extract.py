"""Copy everything of a run to one folder: its code, logs, outputs, other files and record.

Some files of a run are only in a working copy on its node, because they exceed the limit for what is sent.
They are fetched from there. A working copy also holds the code; the node's list of files says which files are
new or changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.core import run_layout as names
from gofer.core.files import encode, read_json, write_whole
from gofer.core.run_layout import node_files_path
from gofer.errors import ConfigError, GoferError, UsageError
from gofer.model.decode import decode
from gofer.node.kept.records import COPY, FILES, OUTPUTS
from gofer.ops.files import run_files
from gofer.ops.files.results import NodeCopy, copies_of
from gofer.ops.files.run_files import FetchedFiles
from gofer.ops.logs.log_reader import fetch_records
from gofer.ops.logs.log_sources import ServiceLogs
from gofer.ops.messages import Hint, Message
from gofer.ops.runs.run_records import RunRecords
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.ops.submission.send import is_here
from gofer.snapshot.contents import restore
from gofer.storage.ssh import SshAddress

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


RECORD = "run.json"
_REMOVED = "it was removed, by hand or by `gofer prune`, which does so after 14 days"


class Extracted(NamedTuple):
    """How many files of each kind the folder now holds, which failed, and which cannot be copied.

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
    """Copy a run to `code`, `logs`, `outputs` and `files` in `folder`. A group has `code`, and a folder for
    each row.

    UsageError when the folder is not empty, unless `force`. With `force`, only new files are read, and other
    files stay, but one folder never holds two runs. Every file except a log is written completely or not at
    all. Files that cannot be read are named, and the rest is copied. A job that gofer did not start has only
    the logs of its service.
    """
    _check_folder(folder, row, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    _write_record(session, row, folder)
    if is_adopted(row):
        return Extracted(0, len(ServiceLogs(session, row).fetch(folder / "logs")), 0)
    store = session.runs_in(row.store)
    code = 0 if row.snapshot is None else _restore(store, row, row.snapshot, folder / "code")
    if row.kind == "run":
        found = _bring(session, row, folder, Path())
        # A run that never started has only the logs of the service.
        logs = found.log_files or len(ServiceLogs(session, row).fetch(folder / "logs"))
        return found._replace(code_files=code, log_files=logs)
    rows = _with_folder(session, store, row)
    return _sum(code, [_bring(session, one, folder, Path(str(one.row_index))) for one in rows])


def name_in_code(session: Session, folder: Path) -> None:
    """Tell the person when files in the folder would be sent with the code of the next submission."""
    try:
        root = Path(os.path.realpath(session.settings.code_folder.path))
    except ConfigError:
        return
    inside = os.path.relpath(os.path.realpath(folder), root)
    if inside == "." or inside.startswith(".."):
        return
    files = (root / ".gitignore", root / ".goferignore")
    known = {line.strip().strip("/") for file in files for line in _lines(file)}
    if not known.intersection((inside, Path(inside).parts[0])):
        session.emit(Message(f"the next submission sends `{inside}/` with the code"))
        session.emit(Hint(f"a line `/{inside}/` in {root / '.goferignore'} leaves it out"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


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
        else "name a folder that is empty or does not exist",
    )


def _write_record(session: Session, row: RunRow, folder: Path) -> None:
    """Write the record, which names the run for people and for the next extraction."""
    owner = session.ledger.get(row.group_id or row.id)
    record = decode(owner.record, dict[str, object]) if owner is not None else None
    record = record or {"id": row.group_id or row.id}
    which = {} if row.row_index is None else {"row": row.row_index}
    write_whole(str(folder / RECORD), encode({**record, **which}) + b"\n")


def _with_folder(session: Session, store: Store, group: RunRow) -> Sequence[RunRow]:
    """The rows of a group that have started; the others have no files."""
    present = set(store.list_folders(names.RUNS))
    return [one for one in session.ledger.rows_of(group.id) if one.id in present]


def _bring(session: Session, row: RunRow, folder: Path, below: Path) -> Extracted:
    """Copy everything except the code of one run to the path `below` in the folder."""

    run_folder, home = session.run_folder(row, whole=True), folder / below
    copies = fetch_records(run_folder, home / "logs")
    outputs = run_files.bring(run_folder, OUTPUTS, home / OUTPUTS)
    files = run_files.bring(run_folder, FILES, home / FILES)
    files = files.plus(bring_copies(session, row, run_folder, home / FILES))
    both = outputs.moved(str(below / OUTPUTS)).plus(files.moved(str(below / FILES)))
    return Extracted(0, len(copies), outputs.files, files.files, both.failed, both.left_out)


def _restore(store: Store, row: RunRow, snapshot: str, folder: Path) -> int:
    """Restore the code; its number of files. The folder appears complete or not at all, so an existing one is
    complete.
    """
    if not folder.exists():
        times_key = names.times_key(row.group_id or row.id)
        has_times = store.head(times_key) is not None
        restore(store, snapshot, folder, times_key=times_key if has_times else None)
        # `restore` leaves a mark for nodes that share a copy. In an extracted folder nobody needs it.
        folder.with_name(f"{folder.name}.snapshot").unlink(missing_ok=True)
    return sum(
        len(files) + sum(os.path.islink(os.path.join(top, name)) for name in folders)
        for top, folders, files in os.walk(folder)
    )


def bring_copies(session: Session, row: RunRow, folder: RunFolder, destination: Path) -> FetchedFiles:
    """Copy new files of a run's working copies to the folder `destination`, which holds its `files/`.

    A working copy that cannot be reached or was removed is listed under `failed`, with its path.
    """
    total = FetchedFiles()
    for copy in copies_of(folder, row):
        below = node_files_path(copy.node, "").rstrip("/")
        total = total.plus(_fetch_copy(session, row, folder, copy, destination / below).moved(below))
    return total


def _fetch_copy(
    session: Session, row: RunRow, folder: RunFolder, copy: NodeCopy, destination: Path
) -> FetchedFiles:
    if registry.runs_here(row.backend) and not is_here(session, row.submitter):
        return _unreached(copy, "it is on the machine that submitted the run")
    listed = run_files.list_of(folder, copy.attempt, copy.node)
    listed = [one for one in listed if one.place == COPY]
    try:
        host = _host(session, row, copy.node)
        if not host:
            is_there = os.path.isdir(copy.path)
            return run_files.bring_folder(copy.path, destination, listed) if is_there else _gone(copy, row)
        store = session.of_run(row).store(SshAddress(host, copy.path).url())
        return run_files.bring_listed(store, listed, destination)
    except GoferError as error:
        return _unreached(copy, error.message)


def _gone(copy: NodeCopy, row: RunRow) -> FetchedFiles:
    return _unreached(
        copy, _REMOVED if registry.runs_here(row.backend) else f"it is not on this machine, or {_REMOVED}"
    )


def _unreached(copy: NodeCopy, why: str) -> FetchedFiles:
    return FetchedFiles(
        0, ((".", f"the working copy of node {copy.node} in {copy.path} cannot be fetched: {why}"),)
    )


def _host(session: Session, row: RunRow, node: int) -> str:
    """The ssh name of the machine that has the working copy of a node; empty for this machine.

    Each node of a target over SSH is a machine of its own. A Slurm site has the copies in its shared folder,
    which the login node sees.
    """
    if registry.runs_here(row.backend):
        return ""
    record = RunRecords(session).of(row)
    hosts = record.placement.split(",") if record is not None and record.placement else []
    if node < len(hosts):
        return hosts[node]
    target = session.of_run(row).settings.target(row.target)
    login = registry.find(target.kind).login(target.options, "")
    return "" if login is None else login.host
