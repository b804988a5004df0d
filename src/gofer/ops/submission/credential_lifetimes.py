"""Whether the credentials that a run will need outlive its wait and its work; said before it is sent.

A run reads its store when it starts and writes to it until it ends, and so do its mapped folders. What opens
them was made here, now, and may end while the run waits. A credential that has ended is an error; one that
may end too early is a warning, since nobody knows how long a queue is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.base import Holds, RunCredential
from gofer.core import folder_modes
from gofer.errors import CredentialError, GoferError
from gofer.storage.credentials import OpenedStore
from gofer.text import format_duration, format_time

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.ops.submission.submit import SubmissionDraft

# What is assumed where nothing says more: a run without a time limit, and a queue.
RUN_S = 2 * 86400.0
QUEUE_S = 2 * 86400.0
# As long as Azure lends anything to who logged in; an account's key lends for any time.
LOGIN_S = 7 * 86400.0


class ExpectedDuration(NamedTuple):
    """How long a run may wait and work. `is_assumed` says that nobody gave it a time limit."""

    queue_s: float = QUEUE_S
    run_s: float = RUN_S
    is_assumed: bool = True

    @property
    def whole_s(self) -> float:
        return self.queue_s + self.run_s


def need_of(time_limit_s: float | None, *, retries: int = 0) -> ExpectedDuration:
    """What a job needs: its own time limit, else what is assumed, once for each attempt that it allows."""
    one_s = RUN_S if time_limit_s is None else time_limit_s
    return ExpectedDuration(QUEUE_S, one_s * (1 + retries), time_limit_s is None)


def judge(credentials: Iterable[RunCredential], need: ExpectedDuration, now: float) -> list[str]:
    """A warning for each that may end before the run does, the first to end first; nothing is said twice.

    CredentialError for the first that has ended already. Pure.
    """
    warnings: dict[str, None] = {}
    for one in sorted(credentials, key=lambda found: found.ends_at):
        if one.ends_at <= now:
            ago = format_duration(now - one.ends_at)
            raise CredentialError(f"{one.what} expired at {moment(one.ends_at)}, {ago} ago", hint=one.mend)
        if one.ends_at < now + need.whole_s:
            warnings[_warning(one, need, now)] = None
    return [*warnings]


def _warning(one: RunCredential, need: ExpectedDuration, now: float) -> str:
    left = format_duration(one.ends_at - now)
    work = f"works {format_duration(need.run_s)}{' (no time limit is set)' if need.is_assumed else ''}"
    return (
        f"{one.what} ends at {moment(one.ends_at)}, in {left}; a run that waits up to "
        f"{format_duration(need.queue_s)} and {work} may outlive it: {one.mend}"
    )


def moment(seconds: float) -> str:
    """`2026-03-01 14:05:09 UTC`."""
    return (format_time(seconds) or "").partition(".")[0].replace("T", " ") + " UTC"


def check(session: Session, drawn: SubmissionDraft, *, lent_s: float) -> None:
    """Say what will expire, once each, on the session's talk; CredentialError for what has. Asks nobody but
    a cluster that holds credentials of its own.

    `lent_s` is how long gofer lends what it signs itself.
    """
    options = session.settings.target(drawn.target).options
    now = time.time()
    found = _held(session, drawn)
    if not getattr(options, "identity", None):  # by which nodes ask for tokens, as long as they run
        folders = [folder.store for folder in drawn.job.folders.values() if folder.mode != folder_modes.LINK]
        found += [
            credential
            for url in dict.fromkeys([drawn.store, *folders])
            if (credential := credential_of(session, url, now, lent_s=lent_s)) is not None
        ]
    limit_s = drawn.job.time_limit_s or getattr(options, "time", None)
    for warning in judge(found, need_of(limit_s, retries=drawn.job.retries), now):
        session.say(f"warning: {warning}")


def _held(session: Session, drawn: SubmissionDraft) -> list[RunCredential]:
    """Nothing where the cluster cannot be asked: sending the run says that, and why."""
    backend = session.backend(drawn.target, drawn.placement)
    try:
        return backend.held() if isinstance(backend, Holds) else []
    except GoferError:
        return []


def credential_of(session: Session, url: str, now: float, *, lent_s: float) -> RunCredential | None:
    """What opens that store for a run; None where it ends at no known time, or nothing is needed.

    Keys of S3 and Google are given as they are, and do not say when they end.
    """
    if not url.startswith("az://"):
        return None
    entry = session.settings.store_at(url)
    name = f"`{entry.name}`" if entry and entry.name else url
    if entry is not None and entry.options.key:
        mend = "say how long the run may work: `--time-limit TIME`"
        return RunCredential(f"what gofer lends a run to open the store {name}", now + lent_s, mend)
    if entry is None or not entry.options.sas:
        mend = (
            "Azure lends nothing for longer to who logged in: `key:` of the store, or `identity:` of a "
            "target on Azure ML, opens it for longer"
        )
        lent = now + min(lent_s, LOGIN_S)
        return RunCredential(f"what gofer lends a run to open the store {name}", lent, mend)
    ends_at = getattr(session.store(url), "sas_expires_at", None)
    if ends_at is None:
        return None  # the account's access policy says when, and nobody but the service knows it
    mend = OpenedStore(entry.url, name=entry.name, written=entry.options).mend("sas")
    return RunCredential(f"the SAS of the store {name}", ends_at, mend)
