"""Find runs of other machines in the stores of the settings, and add them to this ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.errors import GoferError
from gofer.ops.maintenance.rebuild import find_runs
from gofer.ops.messages import Warning
from gofer.tracking.references import tidy

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store


def discover(session: Session, reference: str | None = None) -> int:
    """Add runs that are in a store but not in the ledger: all, or those that `reference` may mean.

    Returns how many runs and groups were added. Warns about stores that cannot be read.
    """
    word = None if reference is None else tidy(reference)
    added = 0
    for store in _stores(session):
        try:
            found = find_runs(store, _choice(session, word))
        except GoferError as error:
            session.emit(Warning(f"{error.message}"))
            continue
        for key in found.broken:
            session.emit(Warning(f"the record {key} cannot be read and was left out"))
        rows = [row for row in found.rows if session.ledger.get(row.id) is None]
        session.ledger.insert(rows)
        added += sum(row.group_id is None for row in rows)
    return added


def _stores(session: Session) -> Iterator[Store]:
    """Each store of the settings once. Warns about stores that cannot be opened."""
    seen = set()
    for name in [*session.settings.store_names, *_imported(session)]:
        try:
            store = session.runs_in(name)
        except GoferError as error:
            session.emit(Warning(f"{error.message}"))
            continue
        if store.url not in seen:
            seen.add(store.url)
            yield store


def _imported(session: Session) -> list[str]:
    """The stores of targets in other tools' files. Files that cannot be read are skipped."""
    found = []
    for name in session.settings.provider.names if session.settings.provider else ():
        with suppress(GoferError):
            found.append(session.settings.target(name).store)
    return [name for name in dict.fromkeys(found) if name not in session.settings.store_names]


def _choice(session: Session, word: str | None) -> Callable[[list[str]], list[str]]:
    def choose(owners: list[str]) -> list[str]:
        unknown = [owner for owner in owners if session.ledger.get(owner) is None]
        if word is None:
            return unknown
        if word == "last":
            return unknown[-1:]  # ids begin with the time
        head, _, index = word.rpartition("-")
        ends = (word, head) if head and index.isdecimal() else (word,)  # `k9qd4x-17` is a row of `k9qd4x`
        return [one for one in unknown if one.startswith(word) or one.endswith(ends)]

    return choose
