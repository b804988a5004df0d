"""Submit: describe, check, snapshot, record, plan, send. The order is what makes it exactly once.

The code is in the store and private values are sealed before the run is recorded; it is recorded in the
ledger before the cluster hears of it; its id is its name there. A crash anywhere leaves nothing, or a
pending run that the next command completes (see `gofer.ops.repair`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer._version import __version__
from gofer.agent.sealed import Private
from gofer.backends.base import Chooses, Identifies, Seals
from gofer.config.jobs import JobFlags, build_job
from gofer.config.references import holds_reference
from gofer.errors import LedgerError
from gofer.model.ids import new_run_id
from gofer.model.job import Array, Job
from gofer.model.layout import Layout
from gofer.model.run import CodeOrigin, RunRecord
from gofer.ops import code, entry_point, image_use, mapped, send
from gofer.ops.record_rows import rows_of_record
from gofer.storage.base import Delegates
from gofer.text import slug

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.config.job_file import JobFile
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class SubmitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the person asked for. `code` False sends none: the command runs in an empty folder.

    `each` and `array_file` are as on the command line; `columns` are more of `each`, already split.
    """

    flags: JobFlags = JobFlags()
    command: tuple[str, ...] = ()
    target: str | None = None
    job_file: Path | None = None
    each: tuple[str, ...] = ()
    array_file: Path | None = None
    columns: dict[str, tuple[str, ...]] = {}
    code: bool = True


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A checked submission that nothing has been written for; `origin` is that of code sent before."""

    target: str
    backend: str
    store: str
    placement: str = ""
    job: Job
    layout: Layout
    array: Array | None
    code_folder: Path | None
    origin: CodeOrigin | None = None
    resubmit_of: str | None = None


class Site(NamedTuple):
    """Where a job goes: the machine where a target has several, the store of its run, its shape there."""

    placement: str
    store: str
    layout: Layout


def submit(session: Session, request: SubmitRequest) -> RunRow:
    """The run, or the group of an array, recorded and sent. Nothing is left behind when a check fails."""
    return commit(session, draft(session, request))


def plan(session: Session, request: SubmitRequest) -> str:
    """What `submit` would send, as text; nothing is written and no code is read."""
    drawn = draft(session, request)
    _check_lifetimes(session, drawn)
    record = _record(session, drawn, new_run_id(time.time()), None)
    return session.backend(drawn.target, drawn.placement).plan(record).render()


def draft(session: Session, request: SubmitRequest) -> Draft:
    """Describe and check: everything that can be known to fail fails here."""
    file = _job_file(request)
    settings = session.settings
    for warning in settings.warnings:
        session.say(f"warning: {warning}")
    target = settings.target(settings.choose_target(request.target, file.target if file else None))
    job = build_job(request.command, request.flags, file, settings, target.name)
    folder = settings.root if request.code else None
    local = target.kind == "local"
    job = entry_point.check(session, job, folder=folder, local=local)
    job = msgspec.structs.replace(job, folders=mapped.of_target(session, target.name, local=local))
    site = choose_site(session, target.name, job)
    return Draft(
        target=target.name,
        backend=target.kind,
        store=site.store,
        placement=site.placement,
        job=job,
        layout=site.layout,
        array=_array(request, file, job),
        code_folder=folder,
    )


def choose_site(session: Session, target: str, job: Job) -> Site:
    """Where on the target the job goes; CheckFailed when there is no such place, or no image for it there."""
    image_use.check_image(session, target)
    backend = session.backend(target)
    layout = backend.lay_out(job)
    placement = backend.choose(layout) if isinstance(backend, Chooses) else ""
    return Site(placement, session.store_url_of(target, placement), layout)


def _job_file(request: SubmitRequest) -> JobFile | None:
    if request.job_file is None:
        return None
    from gofer.config.job_file import read_job_file

    return read_job_file(request.job_file)


def _array(request: SubmitRequest, file: JobFile | None, job: Job) -> Array | None:
    if not request.each and request.array_file is None and not request.columns and file is None:
        return None
    from gofer.config.arrays import NOTHING, Axes, check_placeholders, expand

    said = file.axes if file else NOTHING
    base = Axes({**said.columns, **request.columns}, said.grid)
    array = expand(request.each, request.array_file, base=base)
    if array is not None:
        check_placeholders(job.command, array.columns)
    return array


def commit(session: Session, drawn: Draft, *, snapshot: str | None = None) -> RunRow:
    """Snapshot (unless one is given), seal, record, send."""
    session.store(drawn.store)
    _check_lifetimes(session, drawn)
    private = _private(session, drawn)  # before the code: a secret that is not there must cost nothing
    origin = None if snapshot is None else drawn.origin
    if snapshot is None and drawn.code_folder is not None:
        taken = code.take(
            session, drawn.code_folder, drawn.store, target=drawn.target, without=drawn.job.folders
        )
        entry_point.check_included(drawn.job, drawn.code_folder, taken)
        snapshot, origin = taken.id, code.origin(taken, drawn.code_folder)
    backend = session.backend(drawn.target, drawn.placement)
    record = _recorded(session, drawn, snapshot, origin, backend, private)
    send.send(session, record, drawn.store, backend)
    row = session.ledger.get(record.id)
    assert row is not None  # it was inserted by this very call
    return row


def _recorded(
    session: Session,
    drawn: Draft,
    snapshot: str | None,
    origin: CodeOrigin | None,
    backend: Backend,
    private: Private,
) -> RunRecord:
    """Seal and record under an id of its own; ids clash about never, and then another one is drawn."""
    for _ in range(5):
        record = _record(session, drawn, new_run_id(time.time()), snapshot, origin)
        if isinstance(backend, Seals):
            backend.seal(record.id, private)
        rows = rows_of_record(record, store=drawn.store, submitter=send.this_process(session))
        try:
            session.ledger.insert(rows)
        except LedgerError:
            if session.ledger.get(record.id) is None:
                raise
            continue
        return record
    raise LedgerError("no free run id was found in five tries", hint="is the clock of this machine stopped?")


def _check_lifetimes(session: Session, drawn: Draft) -> None:
    if drawn.store.startswith("file://") and not drawn.job.folders:
        return  # nothing but files of this machine, whose owner has them anyway
    from gofer.ops import lifetimes

    lifetimes.check(session, drawn, lent_s=_lent_s(session, drawn))


def _private(session: Session, drawn: Draft) -> Private:
    """The caller's environment, as the command would find it here, the job's values that are references, and
    what opens the stores.
    """
    own = session.environ if drawn.backend == "local" else {}
    own = {name: value for name, value in own.items() if not name.startswith("GOFER_")}
    kept = {name: value for name, value in drawn.job.env.items() if holds_reference(value)}
    store, lent = session.store(drawn.store), None
    backend, lent_s = session.backend(drawn.target, drawn.placement), _lent_s(session, drawn)
    identity = backend.node_identity if isinstance(backend, Identifies) else None
    if isinstance(store, Delegates):
        lent = store.node_spec(expires_s=lent_s, write=True, identity=identity)
    folders = mapped.specs(session, drawn.job.folders, expires_s=lent_s, identity=identity)
    return Private({**own, **session.settings.reveal(kept)}, lent, folders)


def _lent_s(session: Session, drawn: Draft) -> float:
    from gofer.ops.lending import lent_s

    options = session.settings.target(drawn.target).options
    limit_s = drawn.job.time_limit_s or getattr(options, "time", None)
    return lent_s(drawn.backend, limit_s, retries=drawn.job.retries)


def _record(
    session: Session, drawn: Draft, run_id: str, snapshot: str | None, origin: CodeOrigin | None = None
) -> RunRecord:
    return RunRecord(
        id=run_id,
        name=drawn.job.name or _name(drawn.job.command),
        target=drawn.target,
        backend=drawn.backend,
        job=drawn.job,
        layout=drawn.layout,
        submitted_at=time.time(),
        submitted_by=f"{_user()}@{os.uname().nodename}",
        gofer=__version__,
        recorder=session.engine_id,
        placement=drawn.placement,
        snapshot=snapshot,
        code=origin,
        array=drawn.array,
        resubmit_of=drawn.resubmit_of,
    )


def _user() -> str:
    named = os.environ.get("LOGNAME") or os.environ.get("USER")
    if named:
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())  # a container's user without a name


def _name(command: tuple[str, ...]) -> str:
    """The script's name where there is one, else the program's: `python train.py` is `train`."""
    words = [os.path.basename(word) for word in command]
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    return slug(os.path.splitext(script)[0]) or "run"
