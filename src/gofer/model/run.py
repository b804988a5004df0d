"""One submission of a job to a target: the record that is written once, and what is seen of it later."""

from __future__ import annotations

from typing import Required, TypedDict

import msgspec

from gofer.core.command import output_word
from gofer.core.outcome import Outcome
from gofer.core.states import Reason, State
from gofer.model.bounds import Count, Seconds
from gofer.model.job import Array, Job
from gofer.model.layout import Layout

RECORD_VERSION = 1


class CodeOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the snapshot's files came from; `commit` and `dirty` only in a git work tree.

    With `file_times`, the run's folder has the times and permission bits of the files. `environments` are
    Python environments of the folder that stay where they are, `imports` folders of the code that the run is
    to import from, `versions` variables that tell the version of a project that asks git for it. With `git`,
    the run's folder has a small git repository for the copy. `secret_files` are the paths of the files that
    went along as secrets of the run.
    """

    folder: str
    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None
    file_times: bool = False
    environments: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    git: bool = False
    secret_files: tuple[str, ...] = ()


class RestoreFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The run, or group of runs, in the same store whose files a run starts with.

    `rows` has for each row of an array the index of the row that it continues; None without an array.
    """

    run: str
    rows: tuple[int, ...] | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`runs/<id>/run.json`: written once at submit, no secrets, enough to rebuild the ledger's row.

    `recorder` names the queue of the machine that recorded it: only there is a submission that was
    interrupted taken up again. `placement` is the machine it was given to, on targets that have several.
    `parent` is the run that submitted it, if a run did.

    With `array`, this is the record of a group: its rows are the runs `<id>-<index>`, which have no
    record of their own.
    """

    id: str
    name: str
    target: str
    backend: str
    job: Job
    layout: Layout
    submitted_at: Seconds
    submitted_by: str
    gofer: str
    recorder: str = ""
    placement: str = ""
    snapshot: str | None = None
    code: CodeOrigin | None = None
    array: Array | None = None
    resubmit_of: str | None = None
    parent: str | None = None
    restore_from: RestoreFrom | None = None
    version: Count = RECORD_VERSION

    def __post_init__(self) -> None:
        """ValueError for a command with a `{column}` that the array does not have."""
        if self.array is None:
            return
        values = dict.fromkeys(self.array.columns, "")
        try:
            output_word.show(self.job.command, values)
        except KeyError as error:
            raise ValueError(f"the array has no column {error}") from None


class RecordedOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome in a record that anybody may have written: the fields of gofer.core.outcome.Outcome with
    limits. Times are the node's own clock.
    """

    state: State
    reason: Reason | None = None
    detail: str | None = None
    exit_code: Count | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    elapsed_s: Seconds | None = None

    @property
    def outcome(self) -> Outcome:
        return Outcome(*(getattr(self, name) for name in Outcome._fields))


class LedgerAttempt(TypedDict, total=False):
    """An attempt in the form of the ledger: the fields of Attempt that are not the default. If a newer gofer
    wrote it, the words may be unknown here.
    """

    number: Required[int]
    state: Required[str]
    reason: str | None
    detail: str | None
    exit_code: int | None
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    gpus: list[list[int]]


class Attempt(RecordedOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """One start of a run on the cluster."""

    number: Count
    gpus: tuple[tuple[Count, ...], ...] = ()

    def encode(self) -> LedgerAttempt:
        """The attempt in the form of the ledger, without values that are the default."""
        built = msgspec.to_builtins(self)
        found: LedgerAttempt = {"number": built.pop("number"), "state": built.pop("state")}
        found.update(built)
        return found


class Observation(RecordedOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """What a backend says of one run at one moment.

    `service_id` is the name under which the cluster knows the run, where that is not the id.
    """

    run_id: str
    attempts: tuple[Attempt, ...] = ()
    service_id: str = ""
