"""Repeat a run: stop it if it is open, then submit its job again, on the same or another target, with the old
or the new code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.backends import registry
from gofer.config.jobs import JobFlags
from gofer.core.code.manifest import ManifestError, differences, load
from gofer.core.folder_modes import WORKING_COPY
from gofer.core.run_layout import function_key, stdin_key
from gofer.core.states import State
from gofer.errors import CheckFailed, Interrupted, StoreError, TargetGone, UsageError
from gofer.model.ids import short_id
from gofer.model.job import Array, RunDependency
from gofer.model.run import RestoreFrom, RunRecord
from gofer.node.kept.records import COPY, FILES
from gofer.ops.files.run_files import lists_of
from gofer.ops.functions.command import with_python
from gofer.ops.messages import Message
from gofer.ops.runs.adopt import OURS
from gofer.ops.runs.observe import refresh
from gofer.ops.runs.run_origin import check_whole
from gofer.ops.runs.stop import abort
from gofer.ops.submission import mapped_folders, stored_code
from gofer.ops.submission.dependencies import open_dependencies
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.ops.submission.sent_code import of_run, read_record
from gofer.ops.submission.submit import Draft, SubmitRequest, commit, make_draft, place_job

if TYPE_CHECKING:
    from gofer.config.targets import Target
    from gofer.model.job import Job, RunDependency
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

# Services may need long to end a job. Giving up would mean that the run was stopped but not repeated.
_PATIENCE_S = 600.0
_FAILED = (State.FAILED.value, State.LOST.value, State.CANCELLED.value)


class Resubmitted(NamedTuple):
    """The old run and the new run. `code_differs` is None when either has no code.

    `kept_by_code` are files of the old run that were not restored because the new run's code has them.
    """

    old: RunRow
    new: RunRow
    code_differs: bool | None
    differences: list[str]
    kept_by_code: tuple[str, ...] = ()


def resubmit(
    session: Session,
    rows: Sequence[RunRow],
    *,
    target: str | None = None,
    same_code: bool = False,
    failed_only: bool = False,
    continues: bool = False,
) -> list[Resubmitted]:
    """Submit each run again, on its own target or on `target`. Open runs are stopped first. Blocks.

    With `continues`, each new run starts with the files and outputs of the old run; CheckFailed when these
    are not in the store of the new run. `failed_only` repeats only the rows of a group that ended without
    success, and stops none. All runs are checked before any is stopped.
    """
    refresh(session, rows)
    rows = [session.ledger.get(row.id) or row for row in rows]
    sessions = [_origin(session, row, target) for row in rows]
    drafts = [
        _draft(own, row, target, failed_only, same_code) for own, row in zip(sessions, rows, strict=True)
    ]
    if continues:
        drafts = [
            _continued(own, row, draft, failed_only)
            for own, row, draft in zip(sessions, rows, drafts, strict=True)
        ]
    living = [row for row in rows if not row.is_final and not (failed_only and row.kind == "group")]
    if living:
        for row in living:
            session.emit(Message(f"{row.short_id} has not ended: it is stopped first"))
        _stop(session, living)
    return [
        _repeat(own, row, draft, same_code) for own, row, draft in zip(sessions, rows, drafts, strict=True)
    ]


def _origin(session: Session, row: RunRow, target: str | None) -> Session:
    """The session whose settings are used: those of the run's own project, if they have the target.

    An adopted job uses the settings of this folder. So does a run whose own target no longer exists, if
    another target is given.
    """
    if is_adopted(row):
        return session
    try:
        own = session.of_run(row)
    except TargetGone:
        if target is None:
            raise
        return session
    if target is None or target == row.target:
        check_whole(session, row)
    return own if target is None or target in own.settings.target_names else session


def _stop(session: Session, living: Sequence[RunRow]) -> None:
    try:
        abort(session, living, patience_s=_PATIENCE_S)
    except Interrupted as late:
        names = " ".join(row.short_id for row in living)
        raise Interrupted(
            f"{late.message}; nothing was submitted",
            hint=f"`gofer wait {names}`, then `gofer resubmit {names}`",
        ) from None


def _draft(session: Session, row: RunRow, target: str | None, failed_only: bool, same_code: bool) -> Draft:
    record = read_record(session, row)
    if is_adopted(row):
        return _draft_adopted(session, row, record, target or record.target)
    found = session.settings.target(target or record.target)
    job = _job(session, record, found)
    job = msgspec.structs.replace(job, after=_after(session, record, found))
    folder = _code_folder(session, record, found.name, same_code=same_code)
    if folder is not None and not same_code and not folder.is_dir():
        raise CheckFailed(
            f"the code of {row.id} came from `{folder}`, which does not exist here",
            hint="`--same-code` runs it as it was sent",
        )
    return msgspec.structs.replace(
        place_job(session, found, job),
        array=_array(session, row, record, failed_only),
        code_folder=folder,
        resubmit_of=row.id,
        with_git=record.code is not None and record.code.git,
        stdin=session.store(row.store).get(stdin_key(record.id)) if job.stdin is not None else None,
        function=session.store(row.store).get(function_key(record.id)) if job.function is not None else None,
    )


def _code_folder(session: Session, record: RunRecord, target: str, *, same_code: bool) -> Path | None:
    """The folder that the code of a run came from. Code that lies in a store is brought as it is now."""
    if record.code is None:
        return None
    if record.job.code is None or same_code:
        return Path(record.code.folder)
    without = (*session.settings.ignored(target), *record.job.ignore)
    return stored_code.bring(session, record.job.code, target, without)


def _draft_adopted(session: Session, row: RunRow, record: RunRecord, target: str) -> Draft:
    """A draft with the command and GPUs of an adopted job, and the code and settings of this folder."""
    if OURS in record.job.tags:
        raise CheckFailed(
            f"{row.id} was started by gofer elsewhere, and its record is in none of the stores here",
            hint="add its store under `stores:` in gofer.yaml, or resubmit it where it was submitted",
        )
    asked = record.job.resources
    flags = JobFlags(
        name=record.name,
        gpus=asked.gpus,
        nodes=asked.nodes,
        multi_process=record.job.multi_process,
        tags=record.job.tags,
    )
    draft = make_draft(session, SubmitRequest(flags=flags, command=record.job.command, target=target))
    return msgspec.structs.replace(draft, resubmit_of=row.id)


def _job(session: Session, record: RunRecord, target: Target) -> Job:
    """The job of the record; on another target, with the folders that are mapped there."""
    if target.name == record.target:
        mapped_folders.check(session, record.job.folders, local=registry.runs_here(target.kind))
        return record.job
    folders = mapped_folders.of_target(session, target.name, local=registry.runs_here(target.kind))
    folders |= {name: one for name, one in record.job.folders.items() if name == WORKING_COPY}
    job = msgspec.structs.replace(record.job, folders=folders)
    return job if job.function is None else with_python(job, registry.capabilities_of(target))


def _after(session: Session, record: RunRecord, target: Target) -> tuple[RunDependency, ...]:
    """The runs that the record waits for, as far as they have not ended. CheckFailed on another target."""
    left = open_dependencies(session, record.job.after)
    if left and target.name != record.target:
        names = " ".join(short_id(one.run) for one in left)
        raise CheckFailed(
            f"{short_id(record.id)} waits for {names}, and a run of the target `{target.name}` cannot",
            hint=f"`gofer wait {names}`, and then resubmit it",
        )
    return left


def _array(session: Session, row: RunRow, record: RunRecord, failed_only: bool) -> Array | None:
    """The rows to repeat: all rows of a group, its failed rows, or the named row."""
    if record.array is None:
        return None
    indices = _indices(session, row, record.array, failed_only)
    return Array(record.array.columns, tuple(record.array.rows[index] for index in indices))


def _indices(session: Session, row: RunRow, array: Array, failed_only: bool) -> Sequence[int]:
    if row.row_index is not None:
        return (row.row_index,)
    if not failed_only:
        return range(len(array.rows))
    failed = session.ledger.rows_of(row.id, _FAILED)
    if not failed:
        raise UsageError(f"no row of {row.id} has failed", hint="leave out `--failed` to repeat all rows")
    return tuple(one.row_index or 0 for one in failed)


def _continued(session: Session, row: RunRow, draft: Draft, failed_only: bool) -> Draft:
    """The draft, with the old run whose files are restored in the new run."""
    if is_adopted(row):
        raise CheckFailed(f"gofer did not start {row.id}, and has none of its files")
    record = read_record(session, row)
    draft = _on_its_machine(session, row, record, draft)
    if session.store(row.store).url != session.store(draft.store).url:
        raise CheckFailed(
            f"the files of {row.id} are in {row.store}, and the target `{draft.target}` keeps runs in "
            f"{draft.store}",
            hint=f"`gofer extract {row.short_id} DIR` fetches them",
        )
    array = record.array
    rows = None if array is None else tuple(_indices(session, row, array, failed_only))
    earlier = RestoreFrom(run=row.group_id or row.id, rows=rows)
    return msgspec.structs.replace(draft, restore_from=earlier)


def _on_its_machine(session: Session, row: RunRow, record: RunRecord, draft: Draft) -> Draft:
    """The draft, on the machine that has the run's files, if each machine has a store of its own.

    CheckFailed when that machine does not answer.
    """
    if draft.target != record.target or draft.placement == record.placement or not record.placement:
        return draft
    if session.store_url_of(draft.target, record.placement) != row.store or draft.store == row.store:
        return draft
    backend = session.backend(draft.target, record.placement)
    backend.select_machines(draft.job, draft.layout)
    return msgspec.structs.replace(draft, store=row.store, placement=record.placement)


def _kept_by_code(session: Session, row: RunRow, new: RunRow) -> tuple[str, ...]:
    """The files of the old run that are not restored because the new run's code has them."""
    if new.snapshot is None or row.kind == "group":
        return ()
    try:
        store = session.runs_in(row.store)
        code = {os.fsdecode(entry.path) for entry in load(store.get_range, new.snapshot).entries}
        listed = {one.path for one in lists_of(session.run_folder(row)) if one.place in (FILES, COPY)}
    except (ManifestError, StoreError):
        return ()
    return tuple(sorted(listed & code))


def _repeat(session: Session, row: RunRow, draft: Draft, same_code: bool) -> Resubmitted:
    record = read_record(session, row)
    old = record.snapshot
    if same_code and old is not None:
        draft = msgspec.structs.replace(draft, sent=of_run(session, row, record))
    new = commit(session, draft)
    differs = None if old is None or new.snapshot is None else old != new.snapshot
    lines = (
        _differences(session.store(row.store), session.store(new.store), old, new.snapshot) if differs else []
    )
    session.ledger.add_event(row.id, new.submitted_at, "resubmitted", {"as": new.id})
    kept = () if draft.restore_from is None else _kept_by_code(session, row, new)
    return Resubmitted(row, session.ledger.get(new.id) or new, differs, lines, kept)


def _differences(old_store: Store, new_store: Store, old: str | None, new: str | None) -> list[str]:
    """`added x`, `removed y`, `changed z` between two snapshots."""
    if old is None or new is None:
        return []
    try:
        found = differences(load(old_store.get_range, old), load(new_store.get_range, new))
    except (ManifestError, StoreError):
        return []  # one of them can no longer be read; only that they differ is known
    return [f"{word} {path}" for word, paths in found._asdict().items() for path in paths]
