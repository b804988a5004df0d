"""Facts about stores and their credentials, without any secret."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gofer.config.references import references
from gofer.config.stores import SECRET_KEYS, StoreEntry
from gofer.errors import GoferError
from gofer.text import format_duration, format_time

if TYPE_CHECKING:
    from gofer.ops.session import Session

_SOON_S = 86400.0


def store_names(session: Session) -> list[str]:
    """The names of the stores in the settings, then of those in other tools' files."""
    names = list(session.settings.store_names)
    if session.settings.provider:
        from gofer.config.target_provider import imported_store_names

        names += [name for name in imported_store_names(session.settings) if name not in names]
    return names


def store_rows(session: Session) -> list[dict[str, Any]]:
    """Name, URL, kind of credentials and origin of every store. Does not look up any secret."""
    entries = [session.settings.store(name) for name in store_names(session)]
    return [
        {"name": entry.name, "url": entry.url, "opened_by": opened_by(entry), "origin": entry.origin}
        for entry in entries
    ]


def store_facts(session: Session, name: str) -> dict[str, Any]:
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


def _sas_facts(session: Session, entry: StoreEntry) -> dict[str, Any]:
    from gofer.objects.azure_auth import bare_token
    from gofer.storage.credentials import sas_facts

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
