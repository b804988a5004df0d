"""Check, before a run is sent, whether its credentials stay valid while it waits and runs.

A run reads its store when it starts and writes to it until it ends, and so do its mapped folders. Their
credentials are made now, and may expire while the run waits. An expired credential is an error. A credential
that may expire too early is a warning, since nobody knows how long the run waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.base import RunCredential
from gofer.backends.registry import capabilities_of
from gofer.core import folder_modes
from gofer.errors import CredentialError, GoferError
from gofer.ops.messages import Warning
from gofer.storage.credentials import OpenedStore
from gofer.text import format_duration, format_moment

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.ops.submission.submit import Draft


# Assumed durations: of a run without a time limit, and of the wait in a queue.
RUN_S = 2 * 86400.0
QUEUE_S = 2 * 86400.0
# The longest validity of what Azure signs for a login. An account key can sign for any time.
LOGIN_S = 7 * 86400.0


class ExpectedDuration(NamedTuple):
    """How long a run may wait and run. `is_assumed`: the run has no time limit."""

    queue_s: float = QUEUE_S
    run_s: float = RUN_S
    is_assumed: bool = True

    @property
    def whole_s(self) -> float:
        return self.queue_s + self.run_s


def need_of(time_limit_s: float | None, *, retries: int = 0) -> ExpectedDuration:
    """The duration of a job: its time limit, or the assumed one, for each attempt that it allows."""
    one_s = RUN_S if time_limit_s is None else time_limit_s
    return ExpectedDuration(QUEUE_S, one_s * (1 + retries), time_limit_s is None)


def judge(credentials: Iterable[RunCredential], need: ExpectedDuration, now: float) -> list[str]:
    """A warning for each credential that may expire before the run ends, the earliest first, without
    repetitions.

    CredentialError for the first credential that has already expired. Pure.
    """
    warnings: dict[str, None] = {}
    for one in sorted(credentials, key=lambda found: found.ends_at):
        if one.ends_at <= now:
            ago = format_duration(now - one.ends_at)
            raise CredentialError(
                f"{one.what} expired at {format_moment(one.ends_at)}, {ago} ago", hint=one.mend
            )
        if one.ends_at < now + need.whole_s:
            warnings[_warning(one, need, now)] = None
    return [*warnings]


def _warning(one: RunCredential, need: ExpectedDuration, now: float) -> str:
    left = format_duration(one.ends_at - now)
    work = f"works {format_duration(need.run_s)}{' (no time limit is set)' if need.is_assumed else ''}"
    return (
        f"{one.what} ends at {format_moment(one.ends_at)}, in {left}; a run that waits up to "
        f"{format_duration(need.queue_s)} and {work} may outlive it: {one.mend}"
    )


def check(session: Session, draft: Draft, *, lent_s: float) -> None:
    """Warn about credentials that will expire; CredentialError for one that has. Calls only clusters with
    credentials of their own.

    `lent_s` is the validity of credentials that gofer signs itself.
    """
    capabilities = capabilities_of(session.settings.target(draft.target))
    now = time.time()
    found = _held(session, draft)
    if capabilities.node_identity is None:  # with an identity, nodes get new tokens as long as they run
        folders = [folder.store for folder in draft.job.folders.values() if folder.mode != folder_modes.LINK]
        found += [
            credential
            for url in dict.fromkeys([draft.store, *folders])
            if (credential := credential_of(session, url, now, lent_s=lent_s)) is not None
        ]
    limit_s = draft.job.time_limit_s or capabilities.time_limit_s
    for warning in judge(found, need_of(limit_s, retries=draft.job.retries), now):
        session.emit(Warning(f"{warning}"))


def _held(session: Session, draft: Draft) -> list[RunCredential]:
    """The credentials that the cluster holds. Empty when the cluster does not answer: sending the run reports
    that.
    """
    backend = session.backend(draft.target, draft.placement)
    try:
        return list(backend.run_credentials())
    except GoferError:
        return []


def credential_of(session: Session, url: str, now: float, *, lent_s: float) -> RunCredential | None:
    """The credential for the store in a run; None when it has no known expiry or none is needed.

    Keys of S3 and Google are passed on unchanged, and their expiry is unknown.
    """
    if not url.startswith("az://"):
        return None
    entry = session.settings.store_at(url)
    name = f"`{entry.name}`" if entry and entry.name else url
    if entry is not None and entry.options.key:
        mend = "give the run a time limit: `--time-limit TIME`"
        return RunCredential(f"the access to the store {name} that gofer gives a run", now + lent_s, mend)
    if entry is None or not entry.options.sas:
        mend = (
            "Azure gives a login no longer access; `key:` of the store, or `identity:` of a "
            "target on Azure ML, lasts longer"
        )
        lent = now + min(lent_s, LOGIN_S)
        return RunCredential(f"the access to the store {name} that gofer gives a run", lent, mend)
    ends_at = getattr(session.store(url), "sas_expires_at", None)
    if ends_at is None:
        return None  # an access policy of the account sets the expiry, which only the service knows
    mend = OpenedStore(entry.url, name=entry.name, written=entry.options).mend("sas")
    return RunCredential(f"the SAS of the store {name}", ends_at, mend)


def lent_s(limit_s: float | None, *, retries: int = 0, is_shown: bool = False) -> float:
    """The validity in seconds: two days for the wait, and the time limit for each attempt. Without a time
    limit it is seven days, the longest that Azure signs for a login.

    Credentials that other readers of the store can see (`is_shown`) are valid no longer than needed. Others
    are in private files of the person, and a run may wait long, so they are valid for at least seven days.
    """
    if limit_s is None:
        return LOGIN_S
    whole_s = QUEUE_S + limit_s * (1 + retries)
    return whole_s if is_shown else max(whole_s, LOGIN_S)
