"""One submission of a job to a target: the record that is written once, and what is seen of it later."""

from __future__ import annotations

import msgspec

from gofer.agent.states import Reason, State
from gofer.model.job import Array, Job
from gofer.model.layout import Layout

RECORD_VERSION = 1


class CodeOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the snapshot's files came from; `commit` and `dirty` only in a git work tree."""

    folder: str
    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`runs/<id>/run.json`: written once at submit, no secrets, enough to rebuild the ledger's row.

    `recorder` names the queue of the machine that recorded it: only there is a submission that was
    interrupted taken up again. `placement` is the machine it was given to, on targets that have several.

    With `array`, this is the record of a group: its rows are the runs `<id>-<index>`, which have no
    record of their own.
    """

    id: str
    name: str
    target: str
    backend: str
    job: Job
    layout: Layout
    submitted_at: float
    submitted_by: str
    gofer: str
    recorder: str = ""
    placement: str = ""
    snapshot: str | None = None
    code: CodeOrigin | None = None
    array: Array | None = None
    resubmit_of: str | None = None
    version: int = RECORD_VERSION


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One start of a run on the cluster."""

    number: int
    state: State
    reason: Reason | None = None
    detail: str | None = None
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    elapsed_s: float | None = None
    gpus: tuple[tuple[int, ...], ...] = ()


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a backend says of one run at one moment. Times are the node's own clock."""

    run_id: str
    state: State
    reason: Reason | None = None
    detail: str | None = None
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    elapsed_s: float | None = None
    attempts: tuple[Attempt, ...] = ()
