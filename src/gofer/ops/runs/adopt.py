"""Adopt jobs of a service that gofer did not start: add them to the ledger, so that commands work on them.

An adopted run is one row of the ledger, made from facts of the service: command, nodes, processes, GPUs and
tags. Its submitter is `ADOPTED`, so that it is never sent again, and its record has no version of gofer. It
has no snapshot and nothing in a store: state and logs come from the service. Nothing is written to the store,
and the job itself is not changed.
"""

from __future__ import annotations

import queue
import re
import shlex
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.backends.base import JobFilter, JobSearch, JobService
from gofer.core.states import State
from gofer.errors import GoferError, LedgerError, Unreachable, UsageError
from gofer.model.job import Job, Resources
from gofer.model.layout import Layout
from gofer.model.run import RunRecord
from gofer.ops.messages import Message, Warning
from gofer.ops.runs.observe import refresh
from gofer.ops.runs.run_origin import define
from gofer.ops.submission.ledger_rows import ADOPTED, rows_of_record
from gofer.text import format_duration, parse_duration_s
from gofer.tracking.references import steps_back, tidy
from gofer.transport.activity import activities, activity

if TYPE_CHECKING:
    from gofer.backends.base import ServiceJob
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


OURS = "gofer"
# A name that is safe for a folder below `assets/`.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
MOST = 10
# How long to wait for all services, and how long for the others once one has found the job.
_LONGEST_S = 20.0
_OTHERS_S = 3.0
# An end of a name is searched among the newest jobs, for at most this time. A person who sees how far the
# search has come decides when it ends, and a script by this variable.
_LISTING_S = 5.0
SEARCH_TIME = "GOFER_SEARCH_TIME"
_SHORTEST_END = 3
_LOOK_S = 0.5


class AdoptResult(NamedTuple):
    """The result of a search: the run or None, the targets whose services know no such job, and how far the
    search came in the services whose older jobs were not looked at, as words by target.
    """

    row: RunRow | None
    asked: tuple[str, ...] = ()
    unread: Mapping[str, str] = MappingProxyType({})


def adopt(session: Session, reference: str, target: str | None = None) -> AdoptResult:
    """Find the job that `reference` names in the services of all targets, or of `target`, and adopt it.

    The reference is the exact name of a job or a unique end of one. While a person sees what the command
    waits for, the search for an end goes on to the oldest job. UsageError with the candidates when there are
    several, those of the session's target first. When no service knows the job, warns about services that
    could not be asked.
    """
    word = tidy(reference)
    if steps_back(word) is not None:
        return AdoptResult(None)
    near = session.target or session.settings.default_target
    found = search(
        session,
        word,
        session.settings.targets_of(target) if target else places(session, near),
        is_name=_NAME.fullmatch(word) is not None,
    )
    named = session.settings.targets_of(session.target) if session.target else ()
    matches = _narrowed(found.matches, named)
    if len(matches) > 1:
        raise _several(word, matches)
    if matches:
        return AdoptResult(_take(session, matches[0].target, matches[0].job))
    for name, error in found.problems.items():
        mend = f"; {error.hint}" if error.hint else ""
        session.emit(Warning(f"the service of `{name}` was not asked: {error.message}{mend}"))
    return AdoptResult(None, found.asked, found.unread)


def _narrowed(matches: Sequence[Match], named: Sequence[str]) -> list[Match]:
    """Prefer exact names to ends of names, and the named targets to others; each job once."""
    exact = [one for one in matches if one.is_exact] or list(matches)
    near = [one for one in exact if one.target in named] or exact
    return list({(one.service, one.job.name): one for one in reversed(near)}.values())[::-1]


def _several(word: str, matches: Sequence[Match]) -> UsageError:
    services = len({one.service for one in matches})
    lines = []
    for target, _, job, _ in matches:
        place = f"{target}  " if services > 1 else ""
        lines.append(f"  {place}{job.name}  {job.status}  {job.command[:60]}")
    listed = "\n".join(lines)
    if services == 1:
        return UsageError(
            f"`{word}` matches {len(matches)} jobs of the service:\n{listed}", hint="give more of the name"
        )
    return UsageError(
        f"`{word}` fits {len(matches)} jobs of {services} services:\n{listed}",
        hint=f"`-c {matches[0].target}` names the target, or give more of the name",
    )


def _take(session: Session, target: str, job: ServiceJob) -> RunRow | None:
    if not _NAME.fullmatch(job.name):
        session.emit(Warning(f"the service's job {job.name!r} cannot be a run's name"))
        return None
    if session.ledger.get(job.name) is None:
        record = record_of(job, target, session.settings.target(target).kind)
        (row,) = rows_of_record(record, store=session.store_url_of(target), submitter=ADOPTED)
        state = State.UNKNOWN if job.state.is_final else job.state
        definition = define(session, target, row.store)
        with suppress(LedgerError):  # another process has already added the row
            session.ledger.insert([row._replace(state=state.value, definition=definition)])
        session.emit(
            Message(f"{job.name} is a job of `{target}` that gofer did not start; the service knows it")
        )
    row_now = session.ledger.get(job.name)
    if row_now is not None:
        with suppress(GoferError):  # a command that needs the state refreshes again, and reports the error
            refresh(session, [row_now])
    return session.ledger.get(job.name)


def record_of(job: ServiceJob, target: str, kind: str) -> RunRecord:
    """The record for a job of a service. Pure, except for the clock if the service gives no time."""
    gpus = _gpus_of(job)
    asked = Resources(gpus=gpus, nodes=job.nodes if job.nodes > 1 and not gpus else None)
    on_node = gpus // max(job.nodes, 1)
    layout = Layout(
        nodes=max(job.nodes, 1),
        gpus_per_node=on_node,
        procs_per_node=max(job.procs_per_node, 1),
        cpus_per_proc=1,
    )
    return RunRecord(
        id=job.name,
        name=job.display_name or job.experiment or job.name,
        target=target,
        backend=kind,
        job=Job(
            command=command_of(job.command),
            resources=asked,
            multi_process=not (on_node > 1 and layout.procs_per_node == 1),
            tags=dict(job.tags),
        ),
        layout=layout,
        submitted_at=time.time() if job.created_at is None else job.created_at,
        submitted_by=job.user,
        gofer="",
    )


def _gpus_of(job: ServiceJob) -> int:
    """The GPUs of a job. If the service does not say, one per process when a node has several processes."""
    if job.gpus is not None:
        return job.gpus
    return job.nodes * job.procs_per_node if job.procs_per_node > 1 else 0


def command_of(line: str) -> tuple[str, ...]:
    """The command that a person typed: the `--command` of an older tool's program, else the line for a shell.
    Pure.
    """
    with suppress(ValueError):
        words = shlex.split(line)
        if "--command" in words[:-1]:
            inner = words[words.index("--command") + 1]
            return _plain_words(inner) or ("bash", "-c", inner)
    return _plain_words(line) or ("bash", "-c", line)


def _plain_words(line: str) -> tuple[str, ...]:
    """The words of a line that has no shell syntax except quotes; empty for any other line."""
    if re.search(r"[|&;<>()$`*?\[\]{}~#\\\n]", line) or re.match(r"\s*\w+=", line):
        return ()
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return ()


class Match(NamedTuple):
    """A job that a word may name, and the target whose service has it. `is_exact`: the word is its full
    name.
    """

    target: str
    service: str
    job: ServiceJob
    is_exact: bool


class Search(NamedTuple):
    """The result: `asked` are targets whose services answered; `problems` says why others did not; `unread`
    how far the search came where it did not reach the oldest job.
    """

    matches: tuple[Match, ...]
    asked: tuple[str, ...]
    problems: dict[str, GoferError]
    unread: dict[str, str]


class _Answer(NamedTuple):
    target: str
    matches: tuple[Match, ...]
    problem: GoferError | None


def places(session: Session, first: str) -> list[str]:
    """The targets whose services may know jobs, `first` in front. Targets that cannot be read are left
    out.
    """
    found = [first]
    for name in session.settings.target_names:
        try:
            if registry.find(session.settings.target(name).kind).has_jobs:
                found.append(name)
        except GoferError:
            continue
    return list(dict.fromkeys(found))


def search(session: Session, word: str, targets: Iterable[str], *, is_name: bool) -> Search:
    """The jobs that `word` may name in the services of these targets. Blocks for 20 seconds at most,
    and longer only while older jobs are read for a person or by GOFER_SEARCH_TIME.

    The word is searched as a full name if it can be one (`is_name`), else as the end of a name. A service
    that several targets share gets one question, unless the targets use different logins.
    """
    services, problems = _services(session, targets)
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
    searches = {target: _new_search(session) for target in services}

    def ask(target: str, service: JobService) -> None:
        answers.put(
            _ask(target, service, word, searches[target] if len(word) >= _SHORTEST_END else None, is_name)
        )

    for chosen in services.items():
        # A daemon thread, so that a service that does not answer cannot delay the end of the command.
        threading.Thread(target=ask, args=chosen, name="gofer-search", daemon=True).start()
    with activity(lambda: f"looking for a job whose name ends in `{word}`: {_progress(searches.values())}"):
        return _collected(answers, searches, problems)


def _new_search(session: Session) -> JobSearch:
    given = session.environ.get(SEARCH_TIME)
    if given:
        return JobSearch(parse_duration_s(given), most=sys.maxsize)
    return JobSearch(_LISTING_S, is_patient=activities.are_shown)


def _progress(searches: Collection[JobSearch]) -> str:
    """How many jobs were read, and back to which day."""
    seen = sum(one.seen for one in searches)
    days = [one.oldest for one in searches if one.oldest is not None]
    back = f", back to {time.strftime('%Y-%m-%d', time.localtime(min(days)))}" if days else ""
    return f"{seen:,} jobs read{back}"


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


def _ask(target: str, service: JobService, word: str, search: JobSearch | None, is_name: bool) -> _Answer:
    """Ask one service, in a thread of its own. Any error becomes an answer, since the caller waits for
    one. Without `search`, the word is only a full name.
    """
    name = service.service_name
    try:
        exact = service.job(word) if is_name else None
        if exact is not None:
            return _Answer(target, (Match(target, name, exact, True),), None)
        if search is None:
            return _Answer(target, (), None)
        found = service.jobs(JobFilter(name_end=word, most=MOST, search=search))
    except GoferError as error:
        return _Answer(target, (), error)
    except Exception as error:  # an exception in a thread would be lost
        return _Answer(target, (), GoferError(f"{type(error).__name__}: {error}"))
    fit = [one for one in found if one.name.endswith(word)]
    return _Answer(target, tuple(Match(target, name, one, False) for one in fit), None)


def _collected(
    answers: queue.SimpleQueue[_Answer], searches: dict[str, JobSearch], problems: dict[str, GoferError]
) -> Search:
    found: dict[str, tuple[Match, ...]] = {}
    began = time.monotonic()
    deadline = began + _LONGEST_S
    silent, seen = list(searches), 0
    while silent:
        try:
            one = answers.get(timeout=min(max(deadline - time.monotonic(), 0.0), _LOOK_S))
        except queue.Empty:
            read = sum(searches[name].seen for name in silent)
            if read > seen and not any(found.values()):
                seen, deadline = read, time.monotonic() + _LONGEST_S
            if time.monotonic() >= deadline:
                break
            continue
        silent.remove(one.target)
        if one.problem is not None:
            problems[one.target] = one.problem
            continue
        found[one.target] = one.matches
        if one.matches:
            deadline = min(deadline, time.monotonic() + _OTHERS_S)
    waited = format_duration(time.monotonic() - began)
    problems.update((name, Unreachable(f"it did not answer within {waited}")) for name in silent)
    asked = tuple(name for name in searches if name in found)
    for search in searches.values():
        search.stop()
    unread = {name: _progress([searches[name]]) for name in asked if searches[name].is_cut}
    return Search(tuple(match for name in asked for match in found[name]), asked, problems, unread)
