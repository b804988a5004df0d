"""The words for where a run stands and why; the same on the node, in the store and in the ledger."""

from __future__ import annotations

import enum


class _Word(str, enum.Enum):
    """A plain string on the wire, a closed set in the code."""

    def __str__(self) -> str:
        return str(self.value)


class State(_Word):
    """Where a run stands. `unknown` is a word from a cluster that gofer has no name for."""

    PENDING = "pending"
    QUEUED = "queued"
    PAUSED = "paused"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATES


class Reason(_Word):
    """Why a run is in its state."""

    USER = "user"
    EXIT_CODE = "exit-code"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out-of-memory"
    TIME_LIMIT = "time-limit"
    PREEMPTED = "preempted"
    NODE_FAILURE = "node-failure"
    SETUP = "set-up"
    STAGING = "staging"
    REJECTED = "rejected"
    CREDENTIAL = "credential"


FINAL_STATES = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})

# What a second try can mend. Running out of memory or time would happen again, a user's abort is meant.
RETRIED_BY_DEFAULT = (
    Reason.EXIT_CODE,
    Reason.SIGNAL,
    Reason.PREEMPTED,
    Reason.NODE_FAILURE,
    Reason.STAGING,
)
