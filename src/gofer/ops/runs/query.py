"""The facts that `gofer query` shows about a run: state, reason, first failing rank, GPUs, paths of logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.backends.base import Waiting
from gofer.core.parallel import BackgroundCall
from gofer.core.states import State
from gofer.errors import GoferError
from gofer.ops.files.results import CameHome, came_home
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.runs.child_runs import blocked_child, explain_child
from gofer.ops.runs.failures import FirstFailure, explain, find_first_failure
from gofer.ops.runs.freshness import NOT_STALE, NoAnswerYet, StaleRuns
from gofer.ops.runs.generations import generation_words
from gofer.ops.runs.node_reports import NodeUse, node_hosts, node_usage, progress
from gofer.ops.runs.run_records import RunRecords, elapsed_s
from gofer.ops.runs.shell import has_shell
from gofer.ops.runs.target_views import page_of
from gofer.ops.runs.wait_reason import WAITING, waiting_for
from gofer.ops.submission import gpu_oversight
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.storage.base import OnDisk
from gofer.text import quote_command

if TYPE_CHECKING:
    from gofer.model.run import RunRecord
    from gofer.ops.runs.run_folder import LogFile, RunFolder
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

FAILED_ROWS = 10
_ENDED_BADLY = frozenset({State.FAILED, State.LOST})


class FailedRow(NamedTuple):
    """A row of a group that failed, and why."""

    id: str
    short_id: str
    args: dict[str, str]
    state: str
    why: str | None


class RunDetails(NamedTuple):
    """What is known about a run, from the ledger and its folder. Unknown facts are None or empty.

    `command` is one line for a shell. `why` is the reason in a sentence, or what the run is doing.
    `log_paths` are files on this machine: fetched copies, or files of a store that is a folder here.
    `failed_rows` are the first ten of a group. `commit` is git's commit with the branch, and whether the code
    differed; `code` is where the code lay in a store. `came_home` are the files that the run left.
    `saw_no_gpu`: the target has GPUs, but the run asked for none. `hosts` are the machines of a target that
    has several, `page` the run's page of a service, and `ahead` the number of runs before a waiting one.
    `has_shell`: a shell can be opened beside it now. `generation` says which nodes an elastic run has.
    """

    row: RunRow
    command: str
    why: str | None
    elapsed_s: float | None
    attempts: int
    first_failure: FirstFailure | None
    logs: list[LogFile]
    log_paths: list[Path]
    usage: list[NodeUse]
    failed_rows: list[FailedRow]
    commit: str = ""
    code: str = ""
    came_home: CameHome = CameHome()
    saw_no_gpu: bool = False
    hosts: tuple[str, ...] = ()
    page: str = ""
    ahead: int | None = None
    generation: str = ""
    has_shell: bool = False


def facts(
    session: Session,
    row: RunRow,
    reader: LogReader | None = None,
    stale: StaleRuns = NOT_STALE,
    *,
    fetched: Sequence[Path] | None = None,
) -> RunDetails:
    """The facts from the ledger and the run's folder, as `reader` listed it. Only about a waiting run, the
    cluster is called. `fetched` are copies of logs, if any. A folder that `stale` cannot read is not read.
    """
    reader = reader or LogReader(session, row, whole=True)
    if is_adopted(row) or not stale.can_read(session, row, reader.folder):
        return _without_folder(session, row, list(fetched or ()))
    folder, logs = reader.folder, reader.files()
    failure = find_first_failure(folder, row)
    record = RunRecords(session).of(row)
    is_waiting = row.kind == "run" and row.state in WAITING and stale.why(row) is None
    waiting = _waiting(session, row, record, stale.limit_s) if is_waiting else None
    return RunDetails(
        row=row,
        command=quote_command(row.command),
        why=waiting.why if waiting else explain(row, record, failure) or _doing(session, folder, row, stale),
        elapsed_s=elapsed_s(row),
        attempts=len(row.attempts) or max((log.attempt for log in logs), default=0),
        first_failure=failure,
        logs=logs,
        log_paths=list(fetched) if fetched is not None else _own_paths(folder.store, logs),
        usage=node_usage(folder, row),
        failed_rows=_failed_rows(session, row),
        commit=_commit(record),
        code=(record.job.code or "") if record is not None else "",
        came_home=came_home(folder, row),
        saw_no_gpu=gpu_oversight.saw_none(record),
        has_shell=has_shell(session, row, record),
        hosts=_hosts(folder, row, record),
        generation=generation_words(folder, row) if record is not None and record.job.elastic else "",
        page=_page(session, row),
        ahead=waiting.ahead if waiting else None,
    )


def _waiting(session: Session, row: RunRow, record: RunRecord | None, limit_s: float | None) -> Waiting:
    """What the run waits for, by its cluster, which must answer within the time limit, if there is one."""
    if limit_s is None or registry.runs_here(row.backend):
        return waiting_for(session, row, record)

    def ask_in_thread() -> Waiting:
        with session.for_thread() as own:
            return waiting_for(own, row, record)

    try:
        return BackgroundCall(ask_in_thread).result(limit_s)
    except TimeoutError:
        return Waiting(f"its cluster cannot be asked: {NoAnswerYet(row.target, limit_s).message}")


def _doing(session: Session, folder: RunFolder, row: RunRow, stale: StaleRuns) -> str | None:
    may_ask = stale.limit_s is None or registry.runs_here(row.backend)
    child = blocked_child(session, row) if may_ask else None
    return progress(folder, row) if child is None else explain_child(row, child)


def _hosts(folder: RunFolder, row: RunRow, record: RunRecord | None) -> tuple[str, ...]:
    if registry.runs_here(row.backend):
        return ()
    if record is not None and record.placement:
        return tuple(record.placement.split(","))
    return node_hosts(folder, row)


def _page(session: Session, row: RunRow) -> str:
    """The run's page of a service; empty where there is none, or the target is no longer known."""
    if registry.runs_here(row.backend) or row.kind == "group":
        return ""
    try:
        return page_of(session, row) or ""
    except GoferError:
        return ""


def _commit(record: RunRecord | None) -> str:
    code = record.code if record else None
    if code is None or code.commit is None:
        return ""
    branch = f" on {code.branch}" if code.branch else ""
    return f"{code.commit[:12]}{branch}{', with changes' if code.dirty else ''}"


def _without_folder(session: Session, row: RunRow, paths: list[Path]) -> RunDetails:
    """The facts about a run that has nothing in a store, or whose store cannot be read."""
    return RunDetails(
        row=row,
        command=quote_command(row.command),
        why=explain(row),
        elapsed_s=elapsed_s(row),
        attempts=len(row.attempts),
        first_failure=None,
        logs=[],
        log_paths=paths,
        usage=[],
        failed_rows=[],
        has_shell=has_shell(session, row, None),
        page=_page(session, row),
    )


def _own_paths(store: Store, logs: list[LogFile]) -> list[Path]:
    return [store.path(log.key) for log in logs] if isinstance(store, OnDisk) else []


def _failed_rows(session: Session, row: RunRow) -> list[FailedRow]:
    if row.kind != "group":
        return []
    failed = session.ledger.rows_of(row.id, _ENDED_BADLY)[:FAILED_ROWS]
    record = RunRecords(session).of(row)
    causes = (explain(one, record, find_first_failure(session.run_folder(one), one)) for one in failed)
    return [
        FailedRow(one.id, one.short_id, one.args, one.state, cause)
        for one, cause in zip(failed, causes, strict=True)
    ]
