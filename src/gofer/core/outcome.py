"""How an attempt or a whole run ended. The exit record of a node, the attempts of a run, the list of ends and
the queue have the fields of an outcome under the same names.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

from gofer.core import files
from gofer.core.states import Reason, State


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

    def of_run(self, history: Sequence[Mapping[str, Any]]) -> Outcome:
        """The outcome of a run whose last attempt ended so. `history` has all its attempts."""
        if not history:
            return self
        # An attempt that was lost early may have no known start.
        started_at = next((at for attempt in history if (at := attempt["started_at"])), None)
        known = [attempt["elapsed_s"] for attempt in history if attempt["elapsed_s"] is not None]
        return self._replace(started_at=started_at, elapsed_s=sum(known) if known else None)

    def encode(self) -> dict[str, Any]:
        """The fields as plain values, in the order in which every record has them."""
        reason = None if self.reason is None else self.reason.value
        return {**self._asdict(), "state": self.state.value, "reason": reason}


def decode(record: Mapping[str, Any]) -> Outcome:
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
) -> dict[str, Any]:
    """The attempt as a dict, in the form that the queue, the store and the ledger keep. `started_at` counts
    when the outcome has no start.
    """
    outcome = outcome._replace(started_at=outcome.started_at or started_at)
    return {"number": number, **outcome.encode(), "gpus": gpus}


def end_line(
    run_id: str, row: int | None, outcome: Outcome, history: list[dict[str, Any]], service_id: str = ""
) -> bytes:
    """The line of `ends.jsonl` that says how the run ended. `history` has its attempts; `outcome` is that of
    the last one, or of the run. `service_id` is the cluster's own name of the run.
    """
    record = {"id": run_id, "row": row, **outcome.of_run(history).encode(), "attempts": history}
    if service_id:
        record["service_id"] = service_id
    return files.encode(record) + b"\n"
