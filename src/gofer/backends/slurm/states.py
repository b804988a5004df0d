"""Translates Slurm's job states into gofer's. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gofer.core.numerals import parse_count
from gofer.core.states import Reason, State


class SlurmStateMeaning(NamedTuple):
    """`words` explain Slurm's state where gofer's state says less."""

    state: State
    reason: Reason | None = None
    words: str | None = None


# Every JOB STATE CODE in squeue(1) and sacct(1), up to Slurm 24.
_MEANINGS = {
    "PENDING": SlurmStateMeaning(State.QUEUED),
    "REQUEUED": SlurmStateMeaning(State.QUEUED),
    "REQUEUE_FED": SlurmStateMeaning(State.QUEUED),
    "REQUEUE_HOLD": SlurmStateMeaning(State.QUEUED, None, "held by Slurm after it was requeued"),
    "RESV_DEL_HOLD": SlurmStateMeaning(State.QUEUED, None, "held: its reservation was deleted"),
    "SPECIAL_EXIT": SlurmStateMeaning(State.QUEUED, None, "held by Slurm after it failed"),
    "EXPEDITING": SlurmStateMeaning(State.QUEUED),
    "CONFIGURING": SlurmStateMeaning(State.STARTING),
    "POWER_UP_NODE": SlurmStateMeaning(State.STARTING),
    "RUNNING": SlurmStateMeaning(State.RUNNING),
    "COMPLETING": SlurmStateMeaning(State.RUNNING),
    "RESIZING": SlurmStateMeaning(State.RUNNING),
    "SIGNALING": SlurmStateMeaning(State.RUNNING),
    "STAGE_OUT": SlurmStateMeaning(State.RUNNING),
    "UPDATE_DB": SlurmStateMeaning(State.RUNNING),
    "SUSPENDED": SlurmStateMeaning(State.PAUSED, None, "suspended by Slurm"),
    "STOPPED": SlurmStateMeaning(State.PAUSED, None, "stopped by Slurm, which keeps its CPUs reserved"),
    "COMPLETED": SlurmStateMeaning(State.SUCCEEDED),
    "CANCELLED": SlurmStateMeaning(State.CANCELLED, Reason.USER, "cancelled in Slurm"),
    "FAILED": SlurmStateMeaning(State.FAILED, Reason.EXIT_CODE, "its job failed"),
    "TIMEOUT": SlurmStateMeaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's time limit"),
    "DEADLINE": SlurmStateMeaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's deadline"),
    "OUT_OF_MEMORY": SlurmStateMeaning(State.FAILED, Reason.OUT_OF_MEMORY, "over the memory limit of Slurm"),
    "PREEMPTED": SlurmStateMeaning(State.FAILED, Reason.PREEMPTED, "preempted, and not restarted"),
    "NODE_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "one of its nodes failed"),
    "BOOT_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "one of its nodes did not boot"),
    "LAUNCH_FAILED": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "Slurm could not launch it"),
    "RECONFIG_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "one node could not be configured"),
    "REVOKED": SlurmStateMeaning(State.UNKNOWN, None, "another cluster of the federation has it"),
}


def meaning_of(word: str) -> SlurmStateMeaning:
    """The meaning of a word, also of `CANCELLED by 0` and `CANCELLED+`. An unknown word becomes `unknown`."""
    first = word.strip().partition(" ")[0].rstrip("+").upper()
    return _MEANINGS.get(first) or SlurmStateMeaning(State.UNKNOWN, None, f"Slurm reports `{word.strip()}`")


def exit_code_of(text: str | None) -> int | None:
    """The exit code from `CODE:SIGNAL` of accounting; a signal becomes 128 + its number, as in a shell."""
    first, _, second = (text or "").partition(":")
    code, signal = parse_count(first), parse_count(second)
    if code is None or signal is None:
        return None
    return 128 + signal if signal else code
