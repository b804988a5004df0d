"""Facts about stores and their credentials, without any secret; checks that a store does what gofer needs.

A check tries each operation on a small object, which is removed again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gofer.config.references import references
from gofer.config.stores import SECRET_KEYS, StoreEntry
from gofer.config.target_provider import imported_store_names
from gofer.errors import GoferError, KeyExists, StoreError
from gofer.model.checks import Check, Status
from gofer.objects.azure_auth import bare_token
from gofer.storage.base import Makes
from gofer.storage.credentials import sas_facts
from gofer.text import format_duration, format_time

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store


_CLOCK_S = 60.0
_FOLDER = "gofer-check"
_SOON_S = 86400.0


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


def store_names(session: Session) -> list[str]:
    """The names of the stores in the settings, then of those in other tools' files."""
    names = list(session.settings.store_names)
    if session.settings.provider:
        names += [name for name in imported_store_names(session.settings) if name not in names]
    return names


def store_rows(session: Session) -> list[dict[str, str]]:
    """Name, URL, kind of credentials and origin of every store. Does not look up any secret."""
    entries = [session.settings.store(name) for name in store_names(session)]
    return [
        {"name": entry.name, "url": entry.url, "opened_by": opened_by(entry), "origin": entry.origin}
        for entry in entries
    ]


def store_facts(session: Session, name: str) -> dict[str, object]:
    """All facts about one store. For a SAS, also its permissions and expiry, or why they are unknown."""
    entry = session.settings.store(name)
    options = {key: value for key, value in entry.options._asdict().items() if value}
    shown = {key: value for key, value in options.items() if key not in SECRET_KEYS}
    facts = {"name": entry.name, "url": entry.url, "origin": entry.origin, **shown}
    return {
        **facts,
        "opened_by": opened_by(entry),
        **(_sas_facts(session, entry) if entry.options.sas else {}),
    }


def opened_by(entry: StoreEntry) -> str:
    """The kind of credentials: `sas from ${secret:acct-sas}`, `key`, `az login`, `AWS keys of this
    machine`…
    """
    for key in ("key", "sas", "secret_key"):
        text = getattr(entry.options, key)
        if text:
            found = [str(reference) for reference in references(text)]
            return f"{key} from {', '.join(found)}" if found else f"{key} in {entry.origin}"
    scheme = entry.url.partition("://")[0]
    if entry.options.profile:
        return f"login of the profile {entry.options.profile}"
    return {"az": "az login", "s3": "AWS keys of this machine", "gs": "Google login of this machine"}.get(
        scheme, "-"
    )


def _sas_facts(session: Session, entry: StoreEntry) -> dict[str, object]:
    try:
        facts = sas_facts(bare_token(session.settings.resolve(entry.options.sas or "")))
    except GoferError as error:
        return {"sas_problem": error.message}
    return {
        "sas_permissions": facts.words(),
        "sas_expires": format_time(facts.expires_at),
        "sas_left": time_left(facts.expires_at),
    }


def time_left(expires_at: float | None) -> str | None:
    """The time left as text: `3h12m` or `expired 2d04h ago`. None when there is no expiry."""
    if expires_at is None:
        return None
    left_s = expires_at - time.time()
    return format_duration(left_s) if left_s > 0 else f"expired {format_duration(-left_s)} ago"


def is_soon(expires_at: float) -> bool:
    """Whether a run that is submitted now may well outlive the credential."""
    return expires_at - time.time() < _SOON_S
