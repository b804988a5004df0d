"""The states of a run and the reasons for them; the same words on the node, in the store and in the
ledger.
"""

from __future__ import annotations

import enum


class _Word(str, enum.Enum):
    """An enumeration whose values are plain strings in files and messages."""

    def __str__(self) -> str:
        return str(self.value)


class State(_Word):
    """The state of a run. `unknown`: the cluster uses a word that gofer does not know."""

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
    DEPENDENCY = "dependency"
    MEMBERSHIP = "membership"


FINAL_STATES = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})

# Reasons that a second attempt may not meet again. Memory and time would run out again, and an abort is
# intended.
RETRIED_BY_DEFAULT = (
    Reason.EXIT_CODE,
    Reason.SIGNAL,
    Reason.PREEMPTED,
    Reason.NODE_FAILURE,
    Reason.STAGING,
)
