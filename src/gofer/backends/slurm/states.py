"""Slurm's words for the state of a job, in gofer's. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gofer.agent.states import Reason, State


class Meaning(NamedTuple):
    """`words` say what Slurm's word means where gofer's own words do not."""

    state: State
    reason: Reason | None = None
    words: str | None = None


# All of JOB STATE CODES in squeue(1) and sacct(1), up to Slurm 24.
_MEANINGS = {
    "PENDING": Meaning(State.QUEUED),
    "REQUEUED": Meaning(State.QUEUED),
    "REQUEUE_FED": Meaning(State.QUEUED),
    "REQUEUE_HOLD": Meaning(State.QUEUED, None, "held by Slurm after it was requeued"),
    "RESV_DEL_HOLD": Meaning(State.QUEUED, None, "held: its reservation was deleted"),
    "SPECIAL_EXIT": Meaning(State.QUEUED, None, "held by Slurm after it failed"),
    "EXPEDITING": Meaning(State.QUEUED),
    "CONFIGURING": Meaning(State.STARTING),
    "POWER_UP_NODE": Meaning(State.STARTING),
    "RUNNING": Meaning(State.RUNNING),
    "COMPLETING": Meaning(State.RUNNING),
    "RESIZING": Meaning(State.RUNNING),
    "SIGNALING": Meaning(State.RUNNING),
    "STAGE_OUT": Meaning(State.RUNNING),
    "UPDATE_DB": Meaning(State.RUNNING),
    "SUSPENDED": Meaning(State.PAUSED, None, "suspended by Slurm"),
    "STOPPED": Meaning(State.PAUSED, None, "stopped by Slurm, its CPUs still held"),
    "COMPLETED": Meaning(State.SUCCEEDED),
    "CANCELLED": Meaning(State.CANCELLED, Reason.USER, "cancelled in Slurm"),
    "FAILED": Meaning(State.FAILED, Reason.EXIT_CODE, "its job failed"),
    "TIMEOUT": Meaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's time limit"),
    "DEADLINE": Meaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's deadline"),
    "OUT_OF_MEMORY": Meaning(State.FAILED, Reason.OUT_OF_MEMORY, "out of the memory Slurm gave it"),
    "PREEMPTED": Meaning(State.FAILED, Reason.PREEMPTED, "preempted, and not started again"),
    "NODE_FAIL": Meaning(State.FAILED, Reason.NODE_FAILURE, "a node of it failed"),
    "BOOT_FAIL": Meaning(State.FAILED, Reason.NODE_FAILURE, "a node of it did not boot"),
    "LAUNCH_FAILED": Meaning(State.FAILED, Reason.NODE_FAILURE, "Slurm could not launch it"),
    "RECONFIG_FAIL": Meaning(State.FAILED, Reason.NODE_FAILURE, "a node of it could not be set up"),
    "REVOKED": Meaning(State.UNKNOWN, None, "another cluster of the federation has it"),
}


def meaning_of(word: str) -> Meaning:
    """Also of `CANCELLED by 0` and `CANCELLED+`; a word that is not known is `unknown`, with the word."""
    first = word.strip().partition(" ")[0].rstrip("+").upper()
    return _MEANINGS.get(first) or Meaning(State.UNKNOWN, None, f"Slurm says `{word.strip()}`")


def exit_code_of(text: str | None) -> int | None:
    """`CODE:SIGNAL` of accounting, as a shell would say it."""
    code, colon, signal = (text or "").partition(":")
    if not colon or not code.isdigit() or not signal.isdigit():
        return None
    return 128 + int(signal) if int(signal) else int(code)
