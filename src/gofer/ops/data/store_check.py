"""Check that a store does what gofer needs, by trying each operation on a small object, which is removed
again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gofer.errors import GoferError, KeyExists, StoreError
from gofer.model.checks import Check, Status
from gofer.ops.data.store_facts import is_soon, time_left
from gofer.storage.base import Makes
from gofer.text import format_duration

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store

_CLOCK_S = 60.0
_FOLDER = "gofer-check"


def check_store(session: Session, name: str, *, create: bool = False) -> list[Check]:
    """One check per operation. Problems are reported as a Check and never raised. With `create`, a missing
    container is created.
    """
    try:
        store = session.store(name)
    except GoferError as error:
        return [Check("open", Status.FAIL, error.message, error.hint)]
    return [*_credential(store), *_Probe(store, create).checks(), *_clock(store)]


class _Probe:
    """Tries the operations on one object, and remembers whether it was written."""

    def __init__(self, store: Store, create: bool) -> None:
        self._store = store
        self._create = create
        self._key = f"{_FOLDER}/{secrets.token_hex(8)}"
        self._data = os.urandom(64)
        self._is_written = False

    def checks(self) -> Iterator[Check]:
        if self._create and isinstance(self._store, Makes):
            yield self._tried("create", self._make)
        reached = self._tried("list", self._list)
        yield reached
        if not reached.ok and "there is no " in reached.detail:
            return
        yield self._tried("write", self._write)
        if self._is_written:
            yield self._tried("create once", self._write_new)
        yield self._tried("read", self._read)
        yield self._tried("delete", self._delete)

    def _tried(self, name: str, act: Callable[[], str]) -> Check:
        began = time.monotonic()
        try:
            words = act()
        except GoferError as error:
            return Check(name, Status.FAIL, error.message, error.hint)
        return Check(name, Status.OK, f"{words} ({format_duration(time.monotonic() - began)})")

    def _make(self) -> str:
        assert isinstance(self._store, Makes)
        return "made" if self._store.make() else "was there"

    def _list(self) -> str:
        next(self._store.list(self._key), None)
        return "can list"

    def _write(self) -> str:
        self._store.put(self._key, self._data)
        self._is_written = True
        return "can write"

    def _write_new(self) -> str:
        """Check that the store can create an object only if it is new: this keeps two laptops from recording
        the same run.
        """
        try:
            self._store.put(self._key, self._data, new=True)
        except KeyExists:
            return "can create an object only if it is new"
        raise StoreError(
            f"the store {self._store.url} replaces an object even when asked only to create it",
            hint="use it for data, and another store for runs: it ignores `If-None-Match`",
        )

    def _read(self) -> str:
        if not self._is_written:
            self._store.head(self._key)
            return "nothing forbids it"
        if self._store.get(self._key) != self._data:
            raise StoreError(f"the store {self._store.url} returned other bytes than were written")
        return "can read"

    def _delete(self) -> str:
        self._store.delete([self._key])
        return "can delete" if self._is_written else "nothing forbids it"


def _credential(store: Store) -> Iterator[Check]:
    expires_at = getattr(store, "sas_expires_at", None)
    if expires_at is None:
        return
    left = time_left(expires_at) or ""
    if left.startswith("expired"):
        yield Check("sas", Status.FAIL, left, "give the store another `sas`")
    elif is_soon(expires_at):
        yield Check("sas", Status.WARN, f"{left} left", "runs that start later than that cannot use it")
    else:
        yield Check("sas", Status.OK, f"{left} left")


def _clock(store: Store) -> Iterator[Check]:
    ahead_s = getattr(store, "clock_ahead_s", None)
    if ahead_s is not None and abs(ahead_s) > _CLOCK_S:
        which = "ahead of" if ahead_s > 0 else "behind"
        words = f"the service's clock is {format_duration(abs(ahead_s))} {which} this machine's"
        yield Check("clock", Status.WARN, words, "set the clock that is wrong; signatures depend on it")
