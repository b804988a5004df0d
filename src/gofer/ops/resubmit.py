"""Repeat a run: stop it if it lives, then submit its job again, here or elsewhere, with the old code or the
new.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.agent.states import State
from gofer.config.jobs import JobFlags
from gofer.errors import CheckFailed, Interrupted, StoreError, UsageError
from gofer.model.job import Array
from gofer.model.run import RunRecord
from gofer.ops import mapped
from gofer.ops.adopt import OURS, is_adopted
from gofer.ops.observe import refresh
from gofer.ops.stop import abort
from gofer.ops.submit import Draft, SubmitRequest, choose_site, commit, draft

if TYPE_CHECKING:
    from gofer.config.targets import Target
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

# Services take their time to end a job, and one that is not repeated was stopped for nothing.
_PATIENCE_S = 600.0
_FAILED = (State.FAILED.value, State.LOST.value, State.CANCELLED.value)


class Resubmitted(NamedTuple):
    """The old run and the new. `code_differs` is None when either had no code."""

    old: RunRow
    new: RunRow
    code_differs: bool | None
    differences: list[str]


def resubmit(
    session: Session,
    rows: Sequence[RunRow],
    *,
    target: str | None = None,
    same_code: bool = False,
    failed_only: bool = False,
) -> list[Resubmitted]:
    """Submit each run again, on its own target or on `target`; a run that lives is stopped first.

    `failed_only` takes of each group the rows that have ended and did not succeed, and stops none. All are
    checked before any is stopped.
    """
    refresh(session, rows)
    rows = [session.ledger.get(row.id) or row for row in rows]
    drafts = [_draft(session, row, target, failed_only, same_code) for row in rows]
    living = [row for row in rows if not row.is_final and not (failed_only and row.kind == "group")]
    if living:
        _stop(session, living)
    return [_repeat(session, row, drawn, same_code) for row, drawn in zip(rows, drafts, strict=True)]


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
    record = _record_of(session, row)
    if is_adopted(row):
        return _draft_adopted(session, row, record, target or record.target)
    found = session.settings.target(target or record.target)
    job = _job(session, record, found)
    folder = None if record.code is None else Path(record.code.folder)
    if folder is not None and not same_code and not folder.is_dir():
        raise CheckFailed(
            f"the code of {row.id} came from `{folder}`, which is not here",
            hint="`--same-code` runs it as it was sent",
        )
    site = choose_site(session, found.name, job)
    return Draft(
        target=found.name,
        backend=found.kind,
        store=site.store,
        placement=site.placement,
        job=job,
        layout=site.layout,
        array=_array(session, row, record, failed_only),
        code_folder=folder,
        origin=record.code,
        resubmit_of=row.id,
    )


def _draft_adopted(session: Session, row: RunRow, record: RunRecord, target: str) -> Draft:
    """The command and the GPUs of a job that gofer did not start, with this folder's code and settings."""
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
    drawn = draft(session, SubmitRequest(flags=flags, command=record.job.command, target=target))
    return msgspec.structs.replace(drawn, resubmit_of=row.id)


def _job(session: Session, record: RunRecord, target: Target) -> Job:
    """As it was; on another target, with the folders that are mapped there."""
    if target.name == record.target:
        mapped.check(session, record.job.folders, local=target.kind == "local")
        return record.job
    folders = mapped.of_target(session, target.name, local=target.kind == "local")
    return msgspec.structs.replace(record.job, folders=folders)


def _record_of(session: Session, row: RunRow) -> RunRecord:
    owner = session.ledger.get(row.group_id or row.id)
    if owner is None or not owner.record:
        raise CheckFailed(
            f"the ledger has no record of {row.id}", hint="`gofer ledger rebuild` reads it from the store"
        )
    return msgspec.json.decode(owner.record, type=RunRecord)


def _array(session: Session, row: RunRow, record: RunRecord, failed_only: bool) -> Array | None:
    """The rows to repeat: all of a group, its failed ones, or the one row that was named."""
    if record.array is None:
        return None
    if row.row_index is not None:
        return Array(record.array.columns, (record.array.rows[row.row_index],))
    if not failed_only:
        return record.array
    failed = session.ledger.rows_of(row.id, _FAILED)
    if not failed:
        raise UsageError(
            f"no row of {row.id} has failed", hint="without `--failed` all its rows are repeated"
        )
    return Array(record.array.columns, tuple(record.array.rows[one.row_index or 0] for one in failed))


def _repeat(session: Session, row: RunRow, drawn: Draft, same_code: bool) -> Resubmitted:
    old = _record_of(session, row).snapshot
    if same_code and old is not None:
        _bring(session.store(row.store), session.store(drawn.store), old)
    new = commit(session, drawn, snapshot=old if same_code else None)
    differs = None if old is None or new.snapshot is None else old != new.snapshot
    lines = (
        _differences(session.store(row.store), session.store(new.store), old, new.snapshot) if differs else []
    )
    session.ledger.add_event(row.id, new.submitted_at, "resubmitted", {"as": new.id})
    return Resubmitted(row, session.ledger.get(new.id) or new, differs, lines)


def _bring(source: Store, destination: Store, snapshot: str) -> None:
    """The code of a run that goes to another target must be in that target's store."""
    if source.url == destination.url:
        return
    from gofer.agent.folder import PACKS, SNAPSHOTS
    from gofer.agent.manifest import read_packs

    packs = read_packs(source.get_range, snapshot)
    keys = [f"{PACKS}/{pack}{ending}" for pack in packs for ending in ("", ".idx")]
    for key in [*keys, f"{SNAPSHOTS}/{snapshot}"]:
        if destination.head(key) is None:
            destination.put(key, source.get(key))


def _differences(old_store: Store, new_store: Store, old: str | None, new: str | None) -> list[str]:
    """`added x`, `removed y`, `changed z` between two snapshots."""
    from gofer.agent.manifest import ManifestError, differences, load

    if old is None or new is None:
        return []
    try:
        found = differences(load(old_store.get_range, old), load(new_store.get_range, new))
    except (ManifestError, StoreError):
        return []  # one of them cannot be read any more; that they differ is known all the same
    return [f"{word} {path}" for word, paths in found._asdict().items() for path in paths]
