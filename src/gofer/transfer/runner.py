"""Carries out the plan of a transfer."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

from gofer.errors import GoferError, UsageError
from gofer.transfer.budget import Budget
from gofer.transfer.download import Download
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.executor import Executor, explain
from gofer.transfer.journal import remove_stale_notes
from gofer.transfer.mover import Mover
from gofer.transfer.planner import TransferPlan
from gofer.transfer.progress import TransferProgress
from gofer.transfer.relay import Relay
from gofer.transfer.result import TransferResult
from gofer.transfer.upload import Upload

_DELETED_AT_ONCE = 256


def run(
    plan: TransferPlan,
    *,
    jobs: int | None = None,
    progress: TransferProgress | None = None,
    state: Path | None = None,
) -> TransferResult:
    """Carry out the plan. Blocks. Idempotent: a repeated transfer continues an interrupted one.

    A file that fails does not stop the others; the result names it. Raises errors that concern every file: a
    credential, a full disk, a store that cannot be reached. However it ends, only complete files have their
    final names. `state` is a folder for notes, with which the upload of a large file continues after a crash.
    `jobs` overrides the plan's option.
    """
    begun = time.monotonic()
    progress = progress or TransferProgress()
    budget = Budget()
    remove_stale_notes(state)
    mover = _mover(plan, budget, state)
    executor = Executor(mover, plan.items(), budget, progress)
    progress.begin("moving", files=plan.files, size=plan.bytes)
    if plan.files:
        executor.run(plan.options.jobs if jobs is None else jobs, plan.bytes / plan.files)
    progress.begin("deleting")
    # After a failure nothing is deleted, because the source may not have been read completely.
    clean = not executor.failed and not executor.changed and not plan.odd
    deleted = _delete(mover, plan, executor) if clean else 0
    mover.close()
    progress.begin("done")
    wrong = executor.failed, executor.changed, plan.odd
    kept = plan.deletes - deleted
    return TransferResult(
        executor.files, executor.bytes, plan.skipped, deleted, kept, *wrong, time.monotonic() - begun
    )


def _mover(plan: TransferPlan, budget: Budget, state: Path | None) -> Mover:
    source, destination = plan.source, plan.destination
    if isinstance(source, LocalEnd) and isinstance(destination, StoreEnd):
        return Upload(source, destination, budget, state)
    if isinstance(source, StoreEnd) and isinstance(destination, LocalEnd):
        return Download(source, destination, budget, plan.parts)
    if isinstance(source, StoreEnd) and isinstance(destination, StoreEnd):
        return Relay(source, destination, budget, state)
    raise UsageError(
        f"`{source}` and `{destination}` are both on this machine", hint="copy them with `cp -r`"
    )


def _delete(mover: Mover, plan: TransferPlan, executor: Executor) -> int:
    """Delete files last, so that a transfer that fails half-way has removed nothing. Returns how many."""
    deleted = 0
    deletions = plan.deletions()
    while batch := list(islice(deletions, _DELETED_AT_ONCE)):
        try:
            mover.delete(batch)
            deleted += len(batch)
        except (OSError, GoferError) as error:
            executor.failed.add(batch[0].path, f"cannot be deleted: {explain(error)}")
            break
    return deleted
