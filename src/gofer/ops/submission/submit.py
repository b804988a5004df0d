"""Submit a job: describe, check, snapshot, record, plan, send. This order makes each submission happen
exactly once.

The code and the private values are stored before the run is recorded. The run is recorded in the ledger
before the cluster receives it, and the cluster knows it by the same id. A crash leaves nothing, or a pending
run that the next command completes (see `gofer.ops.maintenance.repair`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gofer._version import __version__
from gofer.backends import registry
from gofer.config.arrays import NOTHING, Axes, check_placeholders, expand
from gofer.config.jobs import JobFlags, build_job, job_nodes, read_job_file
from gofer.config.references import holds_reference, is_secret
from gofer.core import launch
from gofer.core import run_layout as names
from gofer.core.command import output_word
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import State
from gofer.errors import CheckFailed, LedgerError, UsageError
from gofer.model.ids import new_run_id
from gofer.model.job import Array, Job
from gofer.model.layout import Layout
from gofer.model.run import CodeOrigin, RestoreFrom, RunRecord
from gofer.ops.functions.command import function_command, result_key_of, with_python, with_result_key
from gofer.ops.images.wrap import check_image, provide_image
from gofer.ops.messages import Message, Warning
from gofer.ops.runs import run_origin
from gofer.ops.submission import (
    batch_script,
    code,
    credential_lifetimes,
    dependencies,
    entry_point,
    git_version,
    gpu_oversight,
    left_out,
    mapped_folders,
    own_launcher,
    packages,
    plain_code,
    project_use,
    send,
    sent_code,
    stored_code,
    submitting_shell,
)
from gofer.ops.submission.code import NO_CODE, Chosen, choose_code_folder
from gofer.ops.submission.elastic import check_elastic, check_no_rows, with_elastic_key
from gofer.ops.submission.ledger_rows import rows_of_record
from gofer.ops.submission.sent_code import SentCode
from gofer.ops.submission.unused_columns import warn_of_unused
from gofer.storage.base import Delegates
from gofer.text import slug

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.config.jobs import JobFile
    from gofer.config.settings import Settings
    from gofer.config.targets import Target
    from gofer.ops.functions.archive import PackedFunction
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

# Linux starts no process with a longer word or variable.
_MAX_WORD_BYTES = 128 * 1024 - 1


class SubmitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a person. With `code` False, no code is sent, and the command runs in an empty folder.

    `code_folder` is the folder to send instead of the project. `stored_code` is the folder of a store, as
    `STORE:PATH`, to take the code from, or `last` or a run, whose code is taken as it was sent. `include` are
    patterns of ignored files to send. `with_git` sends a small git repository. `each` and `array_file` are as
    on the command line; `columns` are further columns, already split. `shell` as in Job. `after` are runs
    that have to end first, as `dependencies.read_dependencies` reads them. `function` is submitted in place
    of a command.
    """

    flags: JobFlags = JobFlags()
    command: tuple[str, ...] = ()
    target: str | None = None
    job_file: Path | None = None
    each: tuple[str, ...] = ()
    array_file: Path | None = None
    columns: dict[str, tuple[str, ...]] = {}
    code: bool = True
    code_folder: Path | None = None
    stored_code: str | None = None
    include: tuple[str, ...] = ()
    stdin: bytes | None = None
    with_git: bool = False
    shell: bool = False
    after: tuple[str, ...] = ()
    function: PackedFunction | None = None


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A checked submission; nothing has been written for it yet.

    `placement` is the machine, if the target has several. `store` is the URL of the store of the run.
    `code_reason` says why `code_folder` is the project, as in `gofer.config.project`. `sent` is code that was
    sent before; then `code_folder` has only the secret files that go along.
    """

    target: str
    backend: str
    store: str
    placement: str = ""
    job: Job
    layout: Layout
    array: Array | None = None
    code_folder: Path | None = None
    code_reason: str = ""
    sent: SentCode | None = None
    stdin: bytes | None = None
    function: bytes | None = None
    with_git: bool = False
    resubmit_of: str | None = None
    restore_from: RestoreFrom | None = None


def submit(session: Session, request: SubmitRequest) -> RunRow:
    """Submit a run, or a group for an array; its row. Blocks. When a check fails, nothing is left behind."""
    with _interrupt_reported(session, []):
        draft = make_draft(session, request)
    return commit(session, draft)


def plan(session: Session, request: SubmitRequest) -> str:
    """The plan of `submit` as text; the files of the code are reported through `say`. Nothing is written."""
    draft = make_draft(session, request)
    _check_lifetimes(session, draft)
    if draft.code_folder is not None and draft.sent is None:
        source = _source(draft, draft.code_folder)
        choice = code.choose_files(session, source, draft.target, draft.job.folders)
        left_out.list_both_sides(session, source, choice, is_local=registry.runs_here(draft.backend))
    snapshot = draft.sent.snapshot if draft.sent is not None else None
    record = _record(session, draft, new_run_id(time.time()), snapshot)
    backend = session.backend(draft.target, draft.placement)
    return backend.plan(record, backend.prepare(record)).render()


def make_draft(session: Session, request: SubmitRequest) -> Draft:
    """Describe and check. Everything that can be known to fail fails here."""
    file = _job_file(request)
    settings = session.settings
    for warning in settings.warnings:
        session.emit(Warning(f"{warning}"))
    target = settings.target(settings.choose_target(request.target, file.target if file else None))
    request, sbatch = batch_script.describe(session, request, target.kind)
    job = msgspec.structs.replace(_describe(session, request, file, target), sbatch=sbatch)
    root = _choose_code(session, request, file, target.name)
    folder, job = root.path, msgspec.structs.replace(job, code=root.url)
    local = registry.runs_here(target.kind)
    # Programs that packages install do not exist yet, so they cannot be checked.
    is_here = local and job.packages in (None, "none")
    if root.sent is None:
        job = entry_point.check(session, job, folder=folder, local=is_here)
    else:
        job = sent_code.check(session, job, root.sent)
    job = own_launcher.recognise(job)
    batch_script.name_missing(session, job, target=target.name, kind=target.kind)
    folders = mapped_folders.of_target(session, target.name, local=local)
    if file is not None and file.outputs_to is not None:
        folders |= mapped_folders.working_copy(session, file.outputs_to)
    job = msgspec.structs.replace(job, folders=folders, include=request.include)
    left_out.check(session, job)
    draft = place_job(session, target, job)
    own_launcher.check(session, job, draft.layout, one_machine=local)
    own_launcher.note(session, job, draft.layout, folder)
    array = _array(session, request, file, job)
    check_no_rows(job, array)
    _say_output_word(session, job, array)
    is_open = job_nodes(request.flags, file, settings, target.name)["gpus"] is None
    return msgspec.structs.replace(
        draft,
        layout=_with_unseen_gpus(session, draft) if is_open else draft.layout,
        array=array,
        code_folder=folder,
        code_reason=root.reason,
        sent=root.sent,
        stdin=request.stdin,
        function=request.function.data if request.function else None,
        with_git=request.with_git,
    )


def _describe(session: Session, request: SubmitRequest, file: JobFile | None, target: Target) -> Job:
    """The job by the flags, the job file and the settings, before its code and its folders are known."""
    job = _build_job(request, file, session.settings, target)
    _note_unused(session, request.flags, job)
    submitting_shell.check_words(job.command)
    _check_lengths(job)
    return msgspec.structs.replace(
        job,
        shell=request.shell,
        after=dependencies.read_dependencies(session, request.after, target),
        ignore=file.ignore if file is not None else (),
        stdin=None if request.stdin is None else len(request.stdin),
    )


def _choose_code(session: Session, request: SubmitRequest, file: JobFile | None, target: str) -> Chosen:
    """The folder with the code, or the code that was sent before. Code of a store is brought to this
    machine.
    """
    if not request.code or request.code_folder is not None:
        if request.stored_code is not None:
            raise UsageError("`--code` and another option both say where the code is", hint="leave out one")
        return choose_code_folder(session, request.code_folder) if request.code else NO_CODE
    word = request.stored_code or (file.code if file else None)
    if word is None:
        return choose_code_folder(session, None)
    if sent_code.names_earlier_code(session, word, target):
        sent = sent_code.find_earlier(session, word)
        return Chosen(sent.folder, "", sent.url, sent)
    url = stored_code.url_of(session, word, target)
    without = (*session.settings.ignored(target), *(file.ignore if file is not None else ()))
    return Chosen(stored_code.bring(session, url, target, without), "", url)


def _build_job(request: SubmitRequest, file: JobFile | None, settings: Settings, target: Target) -> Job:
    if request.function is None:
        return build_job(request.command, request.flags, file, settings, target.name)
    job = build_job(function_command(request.function), request.flags, None, settings, target.name)
    job = msgspec.structs.replace(
        job, name=job.name or request.function.run_name, function=request.function.facts
    )
    return with_python(job, registry.capabilities_of(target))


def _note_unused(session: Session, flags: JobFlags, job: Job) -> None:
    """Name the options that have no effect."""
    if flags.multi_process is False and flags.procs not in (None, 1):
        session.emit(
            Message(f"`--single` means one process on each node, so `--procs {flags.procs}` has no effect")
        )
    if flags.gpu_type is not None and not job.resources.gpus:
        session.emit(Message(f"`--gpu-type {flags.gpu_type}` has no effect on a run without GPUs"))


def _check_lengths(job: Job) -> None:
    """CheckFailed for a text with which Linux cannot start a process."""
    variables = {f"the variable `{name}`": f"{name}={value}" for name, value in job.env.items()}
    texts = {
        "the set-up": job.setup or "",
        "an argument of the command": max(job.command, key=len, default=""),
    }
    for name, text in {**texts, **variables}.items():
        size = len(os.fsencode(text))
        if size > _MAX_WORD_BYTES:
            raise CheckFailed(
                f"{name} has {size:,} bytes; a process can be started with at most {_MAX_WORD_BYTES:,}",
                hint="write it into a file of the project, and use the file: `bash FILE`",
            )


def _with_unseen_gpus(session: Session, draft: Draft) -> Layout:
    """The layout of a run whose number of GPUs is not set anywhere."""
    backend = session.backend(draft.target, draft.placement)
    return gpu_oversight.note_unseen(session, draft.target, backend, draft.layout)


def place_job(session: Session, target: Target, job: Job) -> Draft:
    """A draft that says where on the target the job goes. CheckFailed when there is no suitable machine or
    image.
    """
    check_image(session, target.name)
    backend = session.backend(target.name)
    check_elastic(job, backend, target.name)
    layout = backend.lay_out(job)
    placement = backend.select_machines(job, layout)
    store = session.store_url_of(target.name, placement)
    return Draft(
        target=target.name, backend=target.kind, store=store, placement=placement, job=job, layout=layout
    )


def _job_file(request: SubmitRequest) -> JobFile | None:
    if request.job_file is None:
        return None
    return read_job_file(request.job_file)


def _array(session: Session, request: SubmitRequest, file: JobFile | None, job: Job) -> Array | None:
    if request.function is not None:
        return request.function.array
    if not request.each and request.array_file is None and not request.columns and file is None:
        return None
    said = file.axes if file else NOTHING
    base = Axes({**said.columns, **request.columns}, said.grid)
    array = expand(request.each, request.array_file, base=base)
    if array is not None:
        check_placeholders(job.command, array.columns)
        warn_of_unused(session, job, array)
    return array


def _say_output_word(session: Session, job: Job, array: Array | None) -> None:
    """Tell the person what `{output}` in the command means, if it occurs."""
    if not any(map(output_word.is_output_word, job.command)):
        return
    if array is not None and output_word.NAME in array.columns:
        session.emit(
            Message("`{output}` in the command is the column of the array, not the folder of outputs")
        )
    else:
        session.emit(Message("`{output}` in the command is the folder of outputs, $GOFER_OUTPUT_DIR"))


def commit(session: Session, draft: Draft) -> RunRow:
    """Take the snapshot (unless the code was sent before), store private values, record, send."""
    tried_ids: list[str] = []
    with _interrupt_reported(session, tried_ids):
        session.store(draft.store)
        _check_lifetimes(session, draft)
        provide_image(session, draft.target)
        private = _private(session, draft)  # before the code is sent, so that a missing secret fails early
        sent = _name_secret_files(_send_code(session, draft), private)
        backend = session.backend(draft.target, draft.placement)
        record = _recorded(session, draft, sent, backend, private, tried_ids)
        send.send(session, record, draft.store, backend)
    # The run was sent, even if another command has removed its row in the meantime.
    return session.ledger.get(record.id) or _rows(session, draft, record)[0]


@contextmanager
def _interrupt_reported(session: Session, tried_ids: Sequence[str]) -> Iterator[None]:
    """Tell the person at Ctrl-C what becomes of the run. A submission tries to record the run under
    `tried_ids`.
    """
    try:
        yield
    except KeyboardInterrupt:
        rows = [row for one in tried_ids if (row := session.ledger.get(one)) is not None]
        session.emit(Message(f"interrupted: {_fate(rows[0]) if rows else 'nothing was submitted'}"))
        raise


def _fate(row: RunRow) -> str:
    if row.state == State.PENDING.value:
        return f"{row.id} is recorded, and the next command that can sends it; `gofer abort` prevents this"
    return f"{row.id} was submitted"


def _send_code(session: Session, draft: Draft) -> SentCode:
    if draft.sent is not None:
        sent_code.bring(session, draft.sent, session.store(draft.store))
        return draft.sent
    if draft.code_folder is None:
        return SentCode(None, None, None)
    source = _source(draft, draft.code_folder)
    taken = code.take(session, source, draft.store, target=draft.target, without=draft.job.folders)
    left_out.report(
        session, source, draft.target, taken.left_out(), is_local=registry.runs_here(draft.backend)
    )
    shell = launch.inherited(session.environ) if registry.runs_here(draft.backend) else {}
    use = project_use.read_use(session, draft.job, draft.code_folder, taken, shell)
    backend = session.backend(draft.target, draft.placement)
    sees_folder = backend.capabilities.sees_environment
    has_packages = packages.announce(session, draft.job, backend, draft.code_folder, taken)
    if not sees_folder and not has_packages:
        project_use.name_left_behind(session, draft.job, draft.code_folder, use)
    linked = use.environments if sees_folder or has_packages else ()
    entry_point.check_included(draft.job, draft.code_folder, taken, linked)
    left_out.name_unmatched(session, draft.job, taken)
    origin = code.origin(taken, source, use)
    if draft.job.code is not None:
        origin = msgspec.structs.replace(origin, folder=draft.job.code)
    git = _repository(session, draft, draft.code_folder, origin)
    origin = msgspec.structs.replace(origin, git=git is not None)
    return SentCode(taken.id, origin, taken.encode_times(), git)


def _repository(session: Session, draft: Draft, folder: Path, origin: CodeOrigin) -> bytes | None:
    """The small git repository that goes along, asked for or not."""
    contents = git_version.reads_contents(draft.job.command, folder)
    if draft.with_git:
        return code.pack_repository(session, folder, contents=contents)
    reason = git_version.reason_for_repository(draft.job.command, folder, origin.versions)
    if reason is None:
        return None
    return code.pack_repository_unasked(session, folder, reason, contents=contents)


def _name_secret_files(sent: SentCode, private: RunSecrets) -> SentCode:
    """Add the paths of secret files to the record, so that gofer can mask their values when it prints a
    log.
    """
    if sent.origin is None:
        return sent
    paths = tuple(sorted(private.files or ()))
    return sent._replace(origin=msgspec.structs.replace(sent.origin, secret_files=paths))


def _source(draft: Draft, folder: Path) -> code.Source:
    job = draft.job
    return code.Source(folder, draft.code_reason, job.workdir, job.include, job.code, job.ignore)


def _recorded(
    session: Session,
    draft: Draft,
    sent: SentCode,
    backend: Backend,
    private: RunSecrets,
    tried_ids: list[str],
) -> RunRecord:
    """Store private values and record the run under a new id. If the id is taken, which is very rare, try
    another. Each id is added to `tried_ids` right before the run is recorded.

    File times, standard input and a git repository are stored first, so that every recorded run has them,
    whatever is killed.
    """
    for _ in range(5):
        record = _record(session, draft, new_run_id(time.time()), sent.snapshot, sent.origin)
        _store_beside(session, draft, record.id, sent)
        backend.keep_secrets(record.id, private)
        rows = _rows(session, draft, record)
        tried_ids.append(record.id)
        try:
            session.ledger.insert(rows, result_key=None if draft.function is None else result_key_of(private))
        except LedgerError:
            if session.ledger.get(record.id) is None:
                raise
            tried_ids.remove(record.id)  # the id of another run
            continue
        return record
    raise LedgerError("no free run id was found in five tries", hint="is the clock of this machine stopped?")


def _store_beside(session: Session, draft: Draft, run_id: str, sent: SentCode) -> None:
    """Write what a run needs besides its snapshot to its store."""
    store = session.store(draft.store)
    beside = {
        names.times_key: sent.times,
        names.git_key: sent.git,
        names.stdin_key: draft.stdin,
        names.function_key: draft.function,
    }
    for key_of, data in beside.items():
        if data is not None:
            store.put(key_of(run_id), data)
    if sent.snapshot is not None and session.settings.has_plain_code:
        plain_code.write(session, store, run_id, sent.snapshot, draft.code_folder)


def _rows(session: Session, draft: Draft, record: RunRecord) -> list[RunRow]:
    """The rows of the ledger, with the definition of the target, so that it can be reached from any
    folder.
    """
    rows = rows_of_record(record, store=draft.store, submitter=send.this_process(session))
    definition = run_origin.define(session, draft.target, draft.store)
    rows = [row._replace(definition=definition) for row in rows]
    return [rows[0]._replace(project=session.project), *rows[1:]]


def _check_lifetimes(session: Session, draft: Draft) -> None:
    if draft.store.startswith("file://") and not draft.job.folders:
        return  # only files on this machine, so there are no credentials to check
    credential_lifetimes.check(session, draft, lent_s=_lent_s(session, draft))


def _private(session: Session, draft: Draft) -> RunSecrets:
    """The private values of the run: the caller's environment, the job's resolved references, the credentials
    of stores, and the named secret files.
    """
    own = session.environ if registry.runs_here(draft.backend) else {}
    own = launch.inherited(own)
    kept = {name: value for name, value in draft.job.env.items() if holds_reference(value)}
    store, lent = session.store(draft.store), None
    backend, lent_s = session.backend(draft.target, draft.placement), _lent_s(session, draft)
    identity = backend.capabilities.node_identity
    if isinstance(store, Delegates):
        lent = store.node_spec(expires_s=lent_s, write=True, identity=identity)
    folders = mapped_folders.specs(session, draft.job.folders, expires_s=lent_s, identity=identity)
    files = _secret_files(session, draft)
    limits = submitting_shell.read_shell_limits(session) if registry.runs_here(draft.backend) else None
    secrets = [name for name, value in kept.items() if is_secret(name, value)]
    private = RunSecrets({**own, **session.settings.reveal(kept)}, lent, folders, secrets, files, limits)
    if draft.job.elastic is not None:
        private = with_elastic_key(private)
    return private if draft.function is None else with_result_key(private)


def _secret_files(session: Session, draft: Draft) -> dict[str, str]:
    if draft.code_folder is None or not (draft.job.include or session.settings.include):
        return {}
    return code.collect_secret_files(session, _source(draft, draft.code_folder))


def _lent_s(session: Session, draft: Draft) -> float:
    capabilities = registry.capabilities_of(session.settings.target(draft.target))
    limit_s = draft.job.time_limit_s or capabilities.time_limit_s
    return credential_lifetimes.lent_s(
        limit_s, retries=draft.job.retries, is_shown=capabilities.shows_credentials
    )


def _record(
    session: Session,
    draft: Draft,
    run_id: str,
    snapshot: str | None,
    origin: CodeOrigin | None = None,
) -> RunRecord:
    return RunRecord(
        id=run_id,
        name=draft.job.name or _name(draft.job.command),
        target=draft.target,
        backend=draft.backend,
        job=draft.job,
        layout=draft.layout,
        submitted_at=time.time(),
        submitted_by=f"{_user()}@{os.uname().nodename}",
        gofer=__version__,
        recorder=session.queue_id,
        placement=draft.placement,
        snapshot=snapshot,
        code=origin,
        array=draft.array,
        resubmit_of=draft.resubmit_of,
        parent=session.environ.get("GOFER_RUN_ID") or None,
        restore_from=draft.restore_from,
    )


def _user() -> str:
    named = os.environ.get("LOGNAME") or os.environ.get("USER")
    if named:
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())  # a container may have a user without a name


def _name(command: tuple[str, ...]) -> str:
    """The default name of a run: that of the script, else of the program. `python train.py` becomes
    `train`.
    """
    words = [os.path.basename(word) for word in command]
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    return slug(os.path.splitext(script)[0]) or "run"
