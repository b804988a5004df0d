"""Records in the store the ends that no node can record: those of runs that no node ever began.

A run that is cancelled while it waits, or that its cluster refuses, has no program that could write its line
of `ends.jsonl`. The command that learns of the end writes it, so that other machines and `gofer ledger
rebuild` know the end without the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.core import run_layout as names
from gofer.core.outcome import end_line
from gofer.core.states import Reason, State
from gofer.errors import KeyExists, KeyNotFound, StoreError

if TYPE_CHECKING:
    from gofer.model.run import Observation
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_NEVER_BEGUN = (Reason.REJECTED, Reason.DEPENDENCY)


def is_unrecorded(one: Observation) -> bool:
    """Whether no program will record this end, if the folder of the run proves nothing about it."""
    return one.state == State.CANCELLED or (one.state.is_final and one.reason in _NEVER_BEGUN)


def record_ends(session: Session, rows: Iterable[RunRow], seen: Mapping[str, Observation]) -> None:
    """Add the lines of these ends to the lists of their runs or groups. Blocks; calls the stores. Idempotent.

    Writes nothing for a run without a record in its store. A store that cannot be read or written is passed
    over: the cluster still knows the end.
    """
    groups: dict[tuple[str, str], list[RunRow]] = {}
    for row in rows:
        if row.id in seen:
            groups.setdefault((row.store, row.group_id or row.id), []).append(row)
    for (url, owner), mine in groups.items():
        with suppress(StoreError):
            _append(session.store(url), owner, [(row, seen[row.id]) for row in mine])


def _append(store: Store, owner: str, ends: Collection[tuple[RunRow, Observation]]) -> None:
    key = names.ends_key(owner)
    try:
        known = store.get(key)
    except KeyNotFound:
        known = b""
    written = {_id_of(line) for line in known.split(b"\n")}
    lines = b"".join(
        end_line(row.id, row.row_index, one.outcome, [], one.service_id or row.service_id)
        for row, one in ends
        if row.id not in written
    )
    if lines and store.head(names.record_key(owner)) is not None:
        # A line that was cut off when a machine failed must not swallow the first new line.
        cut = b"\n" if known and not known.endswith(b"\n") else b""
        with suppress(KeyExists):  # a node has begun after all, and its own record counts
            store.put(key, known + cut + lines, new=not known)


def _id_of(line: bytes) -> object:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found.get("id") if isinstance(found, dict) else None
