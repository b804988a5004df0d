"""Carries out a plan."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

from gofer.errors import GoferError, UsageError
from gofer.transfer.budget import Budget
from gofer.transfer.download import Download
from gofer.transfer.endpoints import LocalEnd, StoreEnd
from gofer.transfer.executor import Engine, explain
from gofer.transfer.journal import sweep
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
    """Do what the plan says; blocks. A file that fails stops no other and is told of in the result.

    `state` is a folder for notes by which an upload of a large file goes on after a crash. `jobs` overrides
    that of the plan's options. Raises what concerns every file: a credential, a full disk, a dead store.
    Interrupted, killed or failed, it leaves only whole files under their names; do it again to go on.
    """
    begun = time.monotonic()
    progress = progress or TransferProgress()
    budget = Budget()
    sweep(state)
    mover = _mover(plan, budget, state)
    engine = Engine(mover, plan.items(), budget, progress)
    progress.begin("moving", files=plan.files, size=plan.bytes)
    if plan.files:
        engine.run(plan.options.jobs if jobs is None else jobs, plan.bytes / plan.files)
    progress.begin("deleting")
    clean = not engine.failed and not engine.changed and not plan.odd
    deleted = _delete(mover, plan, engine) if clean else 0
    mover.close()
    progress.begin("done")
    wrong = engine.failed, engine.changed, plan.odd
    kept = plan.deletes - deleted
    return TransferResult(
        engine.files, engine.bytes, plan.skipped, deleted, kept, *wrong, time.monotonic() - begun
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


def _delete(mover: Mover, plan: TransferPlan, engine: Engine) -> int:
    """After all else, so that a transfer that fails half-way has taken nothing away."""
    deleted = 0
    deletions = plan.deletions()
    while batch := list(islice(deletions, _DELETED_AT_ONCE)):
        try:
            mover.delete(batch)
            deleted += len(batch)
        except (OSError, GoferError) as error:
            engine.failed.add(batch[0].path, f"cannot be deleted: {explain(error)}")
            break
    return deleted
