"""Why a job waits: Slurm's reason codes in plain words. Pure."""

from __future__ import annotations

import re

_WORDS = {
    "None": "Slurm has not looked at it yet",
    "Resources": "nodes or GPUs it needs are in use; it is next in line",
    "Priority": "others come first",
    "Dependency": "it waits for another job to end",
    "DependencyNeverSatisfied": "it waits for a job that ended otherwise; it can never start: abort it",
    "BeginTime": "its time has not come; after a requeue Slurm waits for up to two minutes",
    "JobHeldUser": "it is held; `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "JobHoldMaxRequeue": "it was requeued too often, and Slurm holds it",
    "JobLaunchFailure": "it could not be launched; look at its output, then `scontrol release`",
    "JobArrayTaskLimit": "as many rows of its array run as `array_limit` allows",
    "PartitionDown": "its partition takes no jobs to nodes now",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "its partition does not give so many nodes: ask for fewer, or another partition",
    "PartitionTimeLimit": "its time limit is longer than the partition's: it never starts",
    "PartitionConfig": "its partition cannot run it as it is",
    "ReqNodeNotAvail": "nodes it needs are down, drained or reserved",
    "Reservation": "it waits for its reservation",
    "ReservationDeleted": "its reservation was deleted",
    "Licenses": "it waits for a licence",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node has what it asks for: it can never start",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QOS may not use the partition",
    "Cleaning": "its last attempt is being cleaned up",
    "Prolog": "the nodes are being prepared",
    "NonZeroExitCode": "its last attempt failed",
    "TimeLimit": "it ran out of time",
    "SchedDefer": "Slurm puts off looking at it",
    "MaxRequeue": "it was requeued too often",
    "FedJobLock": "the federation decides which cluster gets it",
    "BurstBufferResources": "there is no room in the burst buffer",
    "BurstBufferStageIn": "its data is being staged",
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
    """One line in plain words, with Slurm's own word behind it."""
    code = reason.strip().strip("()")
    first = re.split(r"[,\s]", code, maxsplit=1)[0]
    words = _WORDS.get(first) or _explain_limit(first)
    return f"{words} ({code})" if words else f"Slurm says `{code}`"


def _explain_limit(code: str) -> str | None:
    """`QOSMaxGRESPerUser`, `AssocGrpGRES` and their many relatives."""
    match = _LIMIT.fullmatch(code)
    if match is None:
        return None
    whose, kind, rest = match.groups()
    what = next((words for part, words in _WHAT if part in rest), "what it may use")
    scope = next((words for part, words in _SCOPES.items() if part in code), None)
    limit = "a least amount" if kind == "Min" else "a limit"
    told = f"{_WHOSE[whose]} has {limit} of {what}"
    return f"{told} for {scope}" if scope else told
