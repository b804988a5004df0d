"""The runs of a queue that wait for other runs of the same queue. Reads only."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Optional

from gofer.core.node_request import NodeRequest
from gofer.core.states import FINAL_STATES, State
from gofer.queue.database import Queue

_FINAL = {state.value for state in FINAL_STATES}
_ENDS = {
    State.FAILED.value: "it failed",
    State.CANCELLED.value: "it was cancelled",
    State.LOST.value: "it was lost",
}


class Verdict(NamedTuple):
    """Whether a run may start as far as others are concerned. `never` says why it never will."""

    may_start: bool
    never: Optional[str] = None


FREE = Verdict(True)
HELD = Verdict(False)


def judge(queue: Queue, request: NodeRequest) -> Verdict:
    """The verdict for all runs of a request. Errors of sqlite3 pass through."""
    verdict = FREE
    for one in request.after:
        states = queue.states_of(one["run"])
        if not states:
            return Verdict(False, f"after {_short(one['run'])}: its queue no longer has it")
        if not states <= _FINAL:
            verdict = HELD
        elif one.get("ok", True) and states != {State.SUCCEEDED.value}:
            # Of the rows of an array, one that failed says most.
            worst = next(words for state, words in _ENDS.items() if state in states)
            return Verdict(False, f"after {_short(one['run'])}: {worst}")
    return verdict


def _short(run_id: str) -> str:
    return run_id.split("-", 2)[-1]


class Dependencies:
    """The verdicts for the requests that wait in a queue, by the request's id."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._verdicts: dict[str, Verdict] = {}

    def read(self, requests: Iterable[NodeRequest]) -> bool:
        """Read the verdicts again. Returns whether one has changed."""
        known = self._verdicts
        self._verdicts = {one.id: judge(self._queue, one) for one in requests if one.after}
        return any(known.get(name) != verdict for name, verdict in self._verdicts.items())

    def of(self, request_id: str) -> Verdict:
        return self._verdicts.get(request_id, FREE)
