"""What becomes of a run after an attempt, where no queue decides it: another attempt, or the line of its end.

Pure. Slurm's last program and Azure ML's first node come to the same words by it.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from gofer.core import attempts, files
from gofer.core.attempts import AttemptRecords, Outcome
from gofer.core.states import Reason, State


def judge(facts: AttemptRecords) -> Outcome:
    """How an attempt ended of which nothing runs any more."""
    return attempts.judge(facts, restarts=attempts.MOST_RESTARTS, rebooted=False)


def earlier(number: int, facts: AttemptRecords, begun_at: float, words: str) -> dict[str, Any]:
    """An attempt that another one followed. Where its nodes did not all say how it ended, `words` do."""
    result = judge(facts)
    if any(record is None for record in facts.exits) and result.state == State.LOST:
        result = result._replace(detail=words, ended_at=begun_at)
        if any(record is not None and record["reason"] == Reason.PREEMPTED for record in facts.exits):
            # One node was quick enough to say why; a cluster gives them seconds.
            result = result._replace(reason=Reason.PREEMPTED)
    return attempts.describe(number, result, [], begun_at)


def deserves_another(
    request: Mapping[str, Any], result: Outcome, history: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether the run's own policy asks for another attempt; `history` ends with this one."""
    if result.reason is None:
        return False
    left = request["retries"] >= attempts.spent(history)
    return bool(left and result.reason.value in request["retry_on"])


def status(state: str, exit_code: int | None) -> int:
    """With which a program ends that stands for the run: 0 when it succeeded, else as the command did."""
    if state == State.SUCCEEDED:
        return 0
    return exit_code if exit_code is not None and 0 < exit_code < 256 else 1


def line(run_id: str, row: int | None, result: Outcome, history: list[dict[str, Any]]) -> bytes:
    """The line of `ends.jsonl` that says for good how the run ended; gofer.queue.journal has its twin."""
    told = {
        "id": run_id,
        "row": row,
        "state": result.state.value,
        "reason": None if result.reason is None else result.reason.value,
        "detail": result.detail,
        "exit_code": result.exit_code,
        "started_at": next((at for one in history if (at := one["started_at"])), None),
        "ended_at": result.ended_at,
        "elapsed_s": sum(one["elapsed_s"] or 0.0 for one in history),
        "attempts": history,
    }
    return files.encode(told) + b"\n"
