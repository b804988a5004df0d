"""The rules of states: what an observation changes in the ledger.

A final state stays, except `lost`, which means that nobody could say how the run ended: later proof replaces
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from gofer.core.states import State
from gofer.tracking.rows import FINAL, RunRow, plain

_T = TypeVar("_T")
_GOING = (State.RUNNING, State.STARTING)
_WAITING = (State.QUEUED, State.PENDING, State.PAUSED)


class Observed(Protocol):
    """The attributes of gofer.model.run.Observation. A protocol, because importing the model is slow."""

    @property
    def run_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def detail(self) -> str | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def started_at(self) -> float | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def elapsed_s(self) -> float | None: ...
    @property
    def attempts(self) -> Sequence[object]: ...


class Span(NamedTuple):
    """The rows of a group in one state: how many there are, their first start and their last end."""

    state: str
    rows: int
    first_start: float | None
    last_end: float | None


def after(row: RunRow, seen: Observed) -> RunRow:
    """The row after the observation; equal to `row` when nothing changes or may change. Pure."""
    state = str(seen.state)
    same = state == row.state
    if row.is_final and not same and not (row.state == State.LOST and state in FINAL):
        return row
    ended = row.is_final and same  # details that arrive late fill gaps of an ended run, but erase nothing
    return row._replace(
        state=state,
        reason=_word(seen.reason) or (row.reason if ended else None),
        detail=plain(seen.detail) or (row.detail if ended else None),
        exit_code=_first(seen.exit_code, row.exit_code if ended else None),
        started_at=_first(seen.started_at, row.started_at),
        ended_at=_first(seen.ended_at, row.ended_at if ended else None),
        elapsed_s=_first(seen.elapsed_s, row.elapsed_s if ended else None),
        attempts=_attempts(seen.attempts) or row.attempts,
    )


def group_state(counts: Mapping[str, int]) -> str:
    """The state of a group, from the number of its rows in each state. Pure."""
    states = {state for state, count in counts.items() if count}
    # One running row makes the whole group running.
    if states & {*_GOING}:
        return str(State.RUNNING)
    if states & {*_WAITING}:
        return str(State.PENDING if states == {State.PENDING} else State.QUEUED)
    if State.UNKNOWN in states:
        return str(State.UNKNOWN)
    if states == {State.SUCCEEDED}:
        return str(State.SUCCEEDED)
    return str(State.FAILED if states & {State.FAILED, State.LOST} else State.CANCELLED)


def group_after(group: RunRow, spans: Sequence[Span]) -> RunRow:
    """The group with values computed from its rows; unchanged when the ledger has no rows of it. Pure."""
    if not spans:
        return group
    counts = {span.state: span.rows for span in spans}
    state = group_state(counts)
    started = min((s.first_start for s in spans if s.first_start is not None), default=None)
    ended = max((s.last_end for s in spans if s.last_end is not None), default=None)
    # An open group has no end, although some of its rows have.
    if state not in FINAL:
        ended = None
    elapsed = max(ended - started, 0.0) if ended is not None and started is not None else None
    return group._replace(state=state, counts=counts, started_at=started, ended_at=ended, elapsed_s=elapsed)


def _attempts(attempts: Sequence[object]) -> list[dict[str, Any]]:
    if not attempts:
        return []
    import msgspec  # slow to load, so only after an observation: listing runs must be fast

    built: list[dict[str, Any]] = msgspec.to_builtins(list(attempts))
    return built


def _word(reason: str | None) -> str | None:
    return None if reason is None else str(reason)


def _first(value: _T | None, otherwise: _T | None) -> _T | None:
    return otherwise if value is None else value
