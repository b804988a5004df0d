"""How an attempt or a whole run ended. The exit record of a node, the attempts of a run, the list of ends and
the queue have the fields of an outcome under the same names.
"""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Optional, Sequence, TypedDict

from gofer.core import files
from gofer.core.states import Reason, State


class OutcomeFields(TypedDict):
    """The fields of an outcome in a record of any kind, as JSON has them."""

    state: str
    reason: Optional[str]
    detail: Optional[str]
    exit_code: Optional[int]
    started_at: Optional[float]
    ended_at: Optional[float]
    elapsed_s: Optional[float]


class AttemptFields(OutcomeFields):
    """One attempt, as the queue, the store and the ledger keep it. `gpus` are those of each node."""

    number: int
    gpus: List[List[int]]


class RankFields(TypedDict):
    """How one rank ended, in an exit record."""

    rank: int
    exit_code: Optional[int]
    signal: Optional[int]
    pid: int
    ended_at: float


class FailureFields(TypedDict, total=False):
    """The first failure on a node, in an exit record; `tail` are the last lines of the rank's log."""

    rank: int
    exit_code: Optional[int]
    signal: Optional[int]
    at: float
    tail: List[str]


class ExitFields(OutcomeFields, total=False):
    """An exit record, the content of `exit.json`: how the part of one node ended. `kept` are the totals that
    gofer.node.kept.records reads.
    """

    node: int
    signal: Optional[int]
    first_failure: Optional[FailureFields]
    ranks: List[RankFields]
    kept: Mapping[str, object]


class EndFields(OutcomeFields, total=False):
    """A line of `ends.jsonl`: how a run ended, and its attempts."""

    id: str
    row: Optional[int]
    attempts: List[AttemptFields]
    service_id: str


class Outcome(NamedTuple):
    """How an attempt or a run ended. Times are the clock of the node.

    The state `queued` means that no command was started and the attempt can start again. `elapsed_s` is how
    long the command ran, in all attempts of a run together, None when no attempt measured it.
    """

    state: State
    reason: Optional[Reason] = None
    detail: Optional[str] = None
    exit_code: Optional[int] = None
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    elapsed_s: Optional[float] = None

    def with_detail(self, more: str | None) -> Outcome:
        """The same outcome with `more` added to its detail."""
        return self._replace(detail="; ".join(text for text in (self.detail, more) if text) or None)

    def of_run(self, history: Sequence[AttemptFields]) -> Outcome:
        """The outcome of a run whose last attempt ended so. `history` has all its attempts."""
        if not history:
            return self
        # An attempt that was lost early may have no known start.
        started_at = next((at for attempt in history if (at := attempt["started_at"])), None)
        known = [attempt["elapsed_s"] for attempt in history if attempt["elapsed_s"] is not None]
        return self._replace(started_at=started_at, elapsed_s=sum(known) if known else None)

    def encode(self) -> OutcomeFields:
        """The fields as plain values, in the order in which every record has them."""
        reason = None if self.reason is None else self.reason.value
        return {
            "state": self.state.value,
            "reason": reason,
            "detail": self.detail,
            "exit_code": self.exit_code,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "elapsed_s": self.elapsed_s,
        }


def decode(record: OutcomeFields) -> Outcome:
    """The outcome in a record of any kind. KeyError or ValueError for a record without one."""
    reason = record["reason"]
    return Outcome(
        State(record["state"]),
        None if reason is None else Reason(reason),
        record["detail"],
        record["exit_code"],
        record["started_at"],
        record["ended_at"],
        record["elapsed_s"],
    )


def attempt_record(
    number: int, outcome: Outcome, gpus: list[list[int]], started_at: float | None
) -> AttemptFields:
    """The record of an attempt. `started_at` counts when the outcome has no start."""
    outcome = outcome._replace(started_at=outcome.started_at or started_at)
    return {"number": number, **outcome.encode(), "gpus": gpus}


def end_line(
    run_id: str, row: int | None, outcome: Outcome, history: Sequence[AttemptFields], service_id: str = ""
) -> bytes:
    """The line of `ends.jsonl` that says how the run ended. `history` has its attempts; `outcome` is that of
    the last one, or of the run. `service_id` is the cluster's own name of the run.
    """
    record: EndFields = {
        "id": run_id,
        "row": row,
        **outcome.of_run(history).encode(),  # type: ignore[typeddict-item]
        "attempts": list(history),
    }
    if service_id:
        record["service_id"] = service_id
    return files.encode(record) + b"\n"
