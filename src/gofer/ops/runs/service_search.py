"""Find the service that knows a job: ask the services of all targets in parallel, for a limited time.

Does not use the ledger. Backends are made in the caller's thread; other threads only call services.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.base import JobFilter, JobService
from gofer.errors import GoferError, Unreachable
from gofer.text import format_duration

if TYPE_CHECKING:
    from gofer.backends.base import ServiceJob
    from gofer.ops.session import Session

MOST = 10
# How long to wait for all services, and how long for the others once one has found the job.
_LONGEST_S = 20.0
_OTHERS_S = 3.0
# An end of a name is searched among the newest jobs, for at most this time.
_LISTING_S = 5.0
_SHORTEST_END = 3


class Match(NamedTuple):
    """A job that a word may name, and the target whose service has it. `is_exact`: the word is its full
    name.
    """

    target: str
    service: str
    job: ServiceJob
    is_exact: bool


class Search(NamedTuple):
    """The result: `asked` are targets whose services answered; `problems` says why others did not."""

    matches: tuple[Match, ...]
    asked: tuple[str, ...]
    problems: dict[str, GoferError]


class _Answer(NamedTuple):
    target: str
    matches: tuple[Match, ...]
    problem: GoferError | None


def places(session: Session, first: str) -> list[str]:
    """The targets whose services may know jobs, `first` in front. Targets that cannot be read are left
    out.
    """
    from gofer.backends import registry

    found = [first]
    for name in session.settings.target_names:
        try:
            if registry.find(session.settings.target(name).kind).has_jobs:
                found.append(name)
        except GoferError:
            continue
    return list(dict.fromkeys(found))


def search(session: Session, word: str, targets: Iterable[str], *, is_name: bool) -> Search:
    """The jobs that `word` may name in the services of these targets. Blocks for 20 seconds at most.

    The word is searched as a full name if it can be one (`is_name`), else as the end of a name. A service
    that several targets share gets one question, unless the targets use different logins.
    """
    services, problems = _services(session, targets)
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    def ask(target: str, service: JobService) -> None:
        answers.put(_ask(target, service, word, is_name))

    for chosen in services.items():
        # A daemon thread, so that a service that does not answer cannot delay the end of the command.
        threading.Thread(target=ask, args=chosen, name="gofer-search", daemon=True).start()
    return _collected(answers, list(services), problems)


def _services(
    session: Session, targets: Iterable[str]
) -> tuple[dict[str, JobService], dict[str, GoferError]]:
    """The services to ask, by target, and why others cannot be asked."""
    found: dict[tuple[str, str | None], tuple[str, JobService]] = {}
    problems: dict[str, GoferError] = {}
    for name in targets:
        try:
            backend = session.backend(name)
        except GoferError as error:
            problems[name] = error
            continue
        service = backend.job_service()
        if service is not None:
            found.setdefault((service.service_name, backend.capabilities.profile), (name, service))
    return dict(found.values()), problems


def _ask(target: str, service: JobService, word: str, is_name: bool) -> _Answer:
    """Ask one service, in a thread of its own. Any error becomes an answer, since the caller waits for
    one.
    """
    name = service.service_name
    try:
        exact = service.job(word) if is_name else None
        if exact is not None:
            return _Answer(target, (Match(target, name, exact, True),), None)
        if len(word) < _SHORTEST_END:
            return _Answer(target, (), None)
        found = service.jobs(JobFilter(name_end=word, most=MOST, within_s=_LISTING_S))
    except GoferError as error:
        return _Answer(target, (), error)
    except Exception as error:  # an exception in a thread would be lost
        return _Answer(target, (), GoferError(f"{type(error).__name__}: {error}"))
    fit = [one for one in found if one.name.endswith(word)]
    return _Answer(target, tuple(Match(target, name, one, False) for one in fit), None)


def _collected(
    answers: queue.SimpleQueue[_Answer], waited_for: list[str], problems: dict[str, GoferError]
) -> Search:
    found: dict[str, tuple[Match, ...]] = {}
    began = time.monotonic()
    deadline = began + _LONGEST_S
    silent = list(waited_for)
    while silent:
        try:
            one = answers.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            break
        silent.remove(one.target)
        if one.problem is not None:
            problems[one.target] = one.problem
            continue
        found[one.target] = one.matches
        if one.matches:
            deadline = min(deadline, time.monotonic() + _OTHERS_S)
    waited = format_duration(time.monotonic() - began)
    problems.update((name, Unreachable(f"it did not answer within {waited}")) for name in silent)
    asked = tuple(name for name in waited_for if name in found)
    return Search(tuple(match for name in asked for match in found[name]), asked, problems)
