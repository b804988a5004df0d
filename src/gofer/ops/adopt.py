"""Jobs of a service that gofer did not start, taken into the ledger, so that every verb works on them.

An adopted run is one row of the ledger, made of what the service says: command, nodes, processes, GPUs and
tags. `ADOPTED` stands where another row names the process that submitted it, so that nobody sends it again,
and its record has no version of gofer. It has no snapshot and nothing in a store: state and logs are the
service's own. Nothing is written to the store, and the service's job is not touched.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.agent.states import State
from gofer.backends.base import HasJobs, JobFilter
from gofer.errors import GoferError, LedgerError, UsageError
from gofer.model.job import Job, Resources
from gofer.model.layout import Layout
from gofer.model.run import RunRecord
from gofer.ops.observe import refresh
from gofer.ops.record_rows import ADOPTED, rows_of_record
from gofer.tracking.references import tidy

if TYPE_CHECKING:
    from gofer.backends.base import ServiceJob
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

OURS = "gofer"
_MOST = 10
_SHORTEST_END = 3
# What may be a folder's name below `assets/`.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")


def adopt(session: Session, reference: str, targets: Sequence[str | None]) -> RunRow | None:
    """The job that `reference` means to the services of these targets (None: the default one), as a run.

    By its exact name, else by a unique end of one; UsageError with the candidates when there are several,
    None when there is none. A service that cannot be asked is named, and passed over.
    """
    word = tidy(reference)
    for name in dict.fromkeys(name or session.settings.default_target for name in targets):
        try:
            jobs = _ask(session, name, word)
        except GoferError as error:
            session.say(f"warning: the service of `{name}` was not asked: {error.message}")
            continue
        if len(jobs) > 1:
            lines = "\n".join(f"  {one.name}  {one.status}  {one.command[:60]}" for one in jobs)
            raise UsageError(
                f"`{word}` fits {len(jobs)} jobs of the service:\n{lines}", hint="give more of the name"
            )
        if jobs:
            return _take(session, name, jobs[0])
    return None


def is_adopted(row: RunRow) -> bool:
    """Whether gofer did not start this run."""
    return row.submitter == ADOPTED


def _ask(session: Session, target: str, word: str) -> list[ServiceJob]:
    """The jobs that the word may mean; none for a target without a service."""
    backend = session.backend(target)
    if not isinstance(backend, HasJobs) or word == "last":
        return []
    exact = backend.job(word) if _NAME.fullmatch(word) else None
    if exact is not None:
        return [exact]
    if len(word) < _SHORTEST_END:
        return []
    found = backend.jobs(JobFilter(name_end=word, most=_MOST))
    return [one for one in found if one.name.endswith(word)]


def _take(session: Session, target: str, job: ServiceJob) -> RunRow | None:
    if not _NAME.fullmatch(job.name):
        session.say(f"warning: the service's job {job.name!r} cannot be a run's name")
        return None
    if session.ledger.get(job.name) is None:
        record = record_of(job, target, session.settings.target(target).kind)
        (row,) = rows_of_record(record, store=session.store_url_of(target), submitter=ADOPTED)
        state = State.UNKNOWN if job.state.is_final else job.state
        with suppress(LedgerError):  # another process was first
            session.ledger.insert([row._replace(state=state.value)])
        session.say(f"{job.name} is a job of `{target}` that gofer did not start; the service knows it")
    row_now = session.ledger.get(job.name)
    if row_now is not None:
        with suppress(GoferError):  # whoever wants to know how it stands asks again, and is told
            refresh(session, [row_now])
    return session.ledger.get(job.name)


def record_of(job: ServiceJob, target: str, kind: str) -> RunRecord:
    """The record of a job that has none. Pure, but for the clock where the service has no time."""
    asked = Resources(gpus=job.gpus, nodes=job.nodes if job.nodes > 1 and not job.gpus else None)
    on_node = job.gpus // max(job.nodes, 1)
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


def command_of(line: str) -> tuple[str, ...]:
    """The words that a person typed: what an older tool's own program was given as `--command`, else the line
    for a shell. Pure.
    """
    with suppress(ValueError):
        words = shlex.split(line)
        if "--command" in words[:-1]:
            inner = words[words.index("--command") + 1]
            return _plain_words(inner) or ("bash", "-c", inner)
    return _plain_words(line) or ("bash", "-c", line)


def _plain_words(line: str) -> tuple[str, ...]:
    """The words of a line in which no character means anything to a shell but quotes; none for any other."""
    if re.search(r"[|&;<>()$`*?\[\]{}~#\\\n]", line) or re.match(r"\s*\w+=", line):
        return ()
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return ()
