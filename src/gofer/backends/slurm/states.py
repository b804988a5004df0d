"""Slurm's words for the state of a job, in gofer's. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gofer.core.numerals import parse_count
from gofer.core.states import Reason, State


class SlurmStateMeaning(NamedTuple):
    """`words` say what Slurm's word means where gofer's own words do not."""

    state: State
    reason: Reason | None = None
    words: str | None = None


# All of JOB STATE CODES in squeue(1) and sacct(1), up to Slurm 24.
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
    "STOPPED": SlurmStateMeaning(State.PAUSED, None, "stopped by Slurm, its CPUs still held"),
    "COMPLETED": SlurmStateMeaning(State.SUCCEEDED),
    "CANCELLED": SlurmStateMeaning(State.CANCELLED, Reason.USER, "cancelled in Slurm"),
    "FAILED": SlurmStateMeaning(State.FAILED, Reason.EXIT_CODE, "its job failed"),
    "TIMEOUT": SlurmStateMeaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's time limit"),
    "DEADLINE": SlurmStateMeaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's deadline"),
    "OUT_OF_MEMORY": SlurmStateMeaning(State.FAILED, Reason.OUT_OF_MEMORY, "out of the memory Slurm gave it"),
    "PREEMPTED": SlurmStateMeaning(State.FAILED, Reason.PREEMPTED, "preempted, and not started again"),
    "NODE_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "a node of it failed"),
    "BOOT_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "a node of it did not boot"),
    "LAUNCH_FAILED": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "Slurm could not launch it"),
    "RECONFIG_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "a node of it could not be set up"),
    "REVOKED": SlurmStateMeaning(State.UNKNOWN, None, "another cluster of the federation has it"),
}


def meaning_of(word: str) -> SlurmStateMeaning:
    """Also of `CANCELLED by 0` and `CANCELLED+`; a word that is not known is `unknown`, with the word."""
    first = word.strip().partition(" ")[0].rstrip("+").upper()
    return _MEANINGS.get(first) or SlurmStateMeaning(State.UNKNOWN, None, f"Slurm says `{word.strip()}`")


def exit_code_of(text: str | None) -> int | None:
    """`CODE:SIGNAL` of accounting, as a shell would say it."""
    first, _, second = (text or "").partition(":")
    code, signal = parse_count(first), parse_count(second)
    if code is None or signal is None:
        return None
    return 128 + signal if signal else code
