"""Explains why a job waits: Slurm's reason codes in plain words. Pure."""

from __future__ import annotations

import re

_WORDS = {
    "None": "Slurm has not considered it yet",
    "Resources": "the nodes or GPUs that it needs are in use; it is next in line",
    "Priority": "jobs of higher priority come first",
    "Dependency": "it waits for another job to end",
    "DependencyNeverSatisfied": "the job it depends on did not end as required; it can never start: abort it",
    "BeginTime": "its begin time has not come; after a requeue, Slurm waits for up to two minutes",
    "JobHeldUser": "it is held; `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds it",
    "JobHoldMaxRequeue": "it was requeued too often, and Slurm holds it",
    "JobLaunchFailure": "it could not be launched; read its output, then use `scontrol release`",
    "JobArrayTaskLimit": "the number of running rows has reached `array_limit`",
    "PartitionDown": "its partition does not start jobs now",
    "PartitionInactive": "its partition does not accept jobs now",
    "PartitionNodeLimit": "its partition does not allow so many nodes: use fewer, or another partition",
    "PartitionTimeLimit": "its time limit is longer than the partition's, so it never starts",
    "PartitionConfig": "the configuration of its partition does not allow it to run",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "Reservation": "it waits for its reservation",
    "ReservationDeleted": "its reservation was deleted",
    "Licenses": "it waits for a licence",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node has what it asks for, so it can never start",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QOS may not use the partition",
    "Cleaning": "its last attempt is being cleaned up",
    "Prolog": "the nodes are being prepared",
    "NonZeroExitCode": "its last attempt failed",
    "TimeLimit": "it ran out of time",
    "SchedDefer": "Slurm has deferred scheduling it",
    "MaxRequeue": "it was requeued too often",
    "FedJobLock": "the federation of clusters has not decided which cluster runs it",
    "BurstBufferResources": "the burst buffer is full",
    "BurstBufferStageIn": "its data is being copied to the burst buffer",
    "FrontEndDown": "the front end is down",
}
_WHOSE = {"QOS": "its QOS", "Assoc": "its account or user", "Part": "its partition"}
_SCOPES = {
    "Grp": "all of them together",
    "PerUser": "each user",
    "PerAccount": "each account",
    "PerJob": "each job",
    "PerNode": "each node",
}
_WHAT = (
    ("GRES", "GPUs"),
    ("Cpu", "CPUs"),
    ("CPU", "CPUs"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("Wall", "time"),
    ("Submit", "submitted jobs"),
    ("Jobs", "jobs"),
    ("Billing", "its budget"),
)
_LIMIT = re.compile(r"(QOS|Assoc|Part)(Grp|Max|Min|Usage)?(\w*)")


def explain(reason: str) -> str:
    """One line in plain words, followed by Slurm's own code."""
    code = reason.strip().strip("()")
    # Slurm appends details to some codes: `ReqNodeNotAvail, UnavailableNodes:n1`.
    first = re.split(r"[,\s]", code, maxsplit=1)[0]
    words = _WORDS.get(first) or _explain_limit(first)
    return f"{words} ({code})" if words else f"Slurm reports `{code}`"


def _explain_limit(code: str) -> str | None:
    """The words for a limit such as `QOSMaxGRESPerUser` or `AssocGrpGRES`; None for another code."""
    match = _LIMIT.fullmatch(code)
    if match is None:
        return None
    whose, kind, rest = match.groups()
    what = next((words for part, words in _WHAT if part in rest), "what it may use")
    scope = next((words for part, words in _SCOPES.items() if part in code), None)
    limit = "a minimum" if kind == "Min" else "a limit"
    words = f"{_WHOSE[whose]} has {limit} of {what}"
    return f"{words} for {scope}" if scope else words
