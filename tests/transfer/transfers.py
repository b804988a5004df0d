"""Transfers as tests do them: planned and run in one word."""

from __future__ import annotations

from pathlib import Path

from gofer.storage.base import Store
from gofer.transfer import End, LocalEnd, StoreEnd, TransferOptions, TransferResult, plan, run


def move(
    source: End, destination: End, options: TransferOptions | None = None, *, state: Path | None = None
) -> TransferResult:
    return run(plan(source, destination, options or TransferOptions()), state=state)


def up(
    folder: Path, store: Store, prefix: str = "data", options: TransferOptions | None = None
) -> TransferResult:
    return move(LocalEnd(folder), StoreEnd(store, prefix), options)


def down(
    store: Store, folder: Path, prefix: str = "data", options: TransferOptions | None = None
) -> TransferResult:
    return move(StoreEnd(store, prefix), LocalEnd(folder), options)


def counts(result: TransferResult) -> tuple[int, int, int, int]:
    """Files moved, skipped, deleted, and those that something was wrong with."""
    wrong = len(result.failed) + len(result.changed) + len(result.odd)
    return result.files, result.skipped, result.deleted, wrong
