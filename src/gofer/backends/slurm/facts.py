"""What a site has, whether a job fits its nodes, and why its jobs wait: Slurm's reason codes in plain words.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gofer.backends.base import NodeFacts, Waiting
from gofer.backends.node_needs import is_of_type, needs_of_node
from gofer.backends.slurm.status import meaning_of
from gofer.core.states import State
from gofer.errors import CheckFailed
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.remote.api import QueuedJob, SlurmNodeFacts

# The type of GPUs to which the site gives none.
UNTYPED = "gpu"
_FREE = ("idle",)
_MIXED = ("mixed",)
_BUSY = ("allocated", "completing")
_NO_REASON = "None"
_WORDS = {
    _NO_REASON: "Slurm has not considered it yet",
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
_FARTHEST_S = 300 * 86400.0
_LIMIT = re.compile(r"(QOS|Assoc|Part)(Grp|Max|Min|Usage)?(\w*)")


def nodes(found: Sequence[SlurmNodeFacts]) -> list[NodeFacts]:
    """The nodes, sorted by name."""
    return sorted((_node(node) for node in found), key=lambda node: node.name)


def _node(node: SlurmNodeFacts) -> NodeFacts:
    state, gpus = _state(node.state), sum(node.gpus.values())
    is_up = state != "down"
    return NodeFacts(
        node.name,
        state,
        node.state,
        cpus=node.cpus,
        cpus_free=node.cpus - node.cpus_used if is_up else 0,
        memory_mib=node.memory_mib,
        gpus=gpus,
        gpus_free=gpus - sum(node.gpus_used.values()) if is_up else 0,
        gpu_type=",".join(node.gpus),
        partitions=tuple(node.partitions),
    )


class GpuChoice(NamedTuple):
    """How `sbatch` asks for GPUs of a type: by the type in `--gres`, or by a feature of the nodes."""

    gres_type: str | None = None
    feature: str | None = None


def choose_gpus(found: Sequence[SlurmNodeFacts], wanted: str, target: str) -> GpuChoice:
    """The choice for GPUs of the type `wanted`. CheckFailed when no node, or more than one type, fits."""
    types = dict.fromkeys(kind for node in found for kind in node.gpus)
    fitting = [kind for kind in types if is_of_type(wanted, kind)]
    exact = [kind for kind in fitting if kind.lower() == wanted.lower()]
    if exact or len(fitting) == 1:
        return GpuChoice(gres_type=(exact or fitting)[0])
    if fitting:
        raise CheckFailed(
            f"several types of GPU of the target `{target}` are `{wanted}`: {_named(fitting)}",
            hint=f"name one of them: `--gpu-type {fitting[0]}`",
        )
    features = dict.fromkeys(name for node in found if node.gpus for name in node.features)
    named = next((name for name in features if is_of_type(wanted, name)), None)
    if named is not None:
        return GpuChoice(feature=named)
    known = [*(kind for kind in types if kind != UNTYPED), *features]
    raise CheckFailed(
        f"the job asks for GPUs of the type `{wanted}`, and the target `{target}` has none",
        hint=f"its types and features are {_named(known)}" if known else "leave `--gpu-type` out",
    )


def _named(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def check_nodes(
    found: Sequence[SlurmNodeFacts], job: Job, layout: Layout, choice: GpuChoice, *, where: str
) -> None:
    """CheckFailed when too few nodes can ever run their part of the job. Busy nodes and nodes that are down
    count, since they can become free.
    """
    asked = job.resources
    has_gpus = any(node.gpus for node in found)

    def is_able(node: SlurmNodeFacts) -> bool:
        gpus = node.gpus.get(choice.gres_type, 0) if choice.gres_type else sum(node.gpus.values())
        return (
            (not has_gpus or gpus >= layout.gpus_per_node)
            and (choice.feature is None or choice.feature in node.features)
            and (asked.cpus is None or node.cpus >= layout.procs_per_node * layout.cpus_per_proc)
            and node.memory_mib >= asked.memory_mib
        )

    able = sum(map(is_able, found))
    if found and able < layout.nodes:
        needs = needs_of_node(asked, layout)
        nodes = "a node" if layout.nodes == 1 else f"{layout.nodes} nodes"
        has = f"{able} of its {len(found)} nodes have that" if needs else f"it has {len(found)}"
        raise CheckFailed(
            f"the run needs {nodes} of {where}{f' with {needs}' if needs else ''}; {has}",
            hint="ask for less, or for another partition or target; `gofer list nodes` shows the nodes",
        )


def _state(word: str) -> str:
    """The state in gofer's terms.

    Slurm adds marks to the word: a star means that the node does not answer, others that it sleeps, boots or
    will be drained.
    """
    plain = word.rstrip("*~#!%$@^-+").lower()
    if word.endswith("*") or plain not in (*_FREE, *_MIXED, *_BUSY):
        return "down"
    return "free" if plain in _FREE else "mixed" if plain in _MIXED else "busy"


def waiting(job: QueuedJob, now: float) -> Waiting | None:
    """Why the run of a job waits; None for a run that does not wait.

    Slurm takes a year for the length of jobs without a time limit, so an estimate that is nearly as far away
    says nothing and is left out.
    """
    state = meaning_of(job.state).state
    if state not in (State.QUEUED, State.PAUSED, State.STARTING):
        return None
    if state == State.STARTING and job.reason.strip("()") in ("", _NO_REASON):
        return None
    is_known = job.estimate is not None and job.estimate - now < _FARTHEST_S
    return Waiting(explain(job.reason), job.ahead, job.estimate if is_known else None)


def shell(
    job: str, program: Sequence[str], *, prepare: Sequence[str], terminal: bool, node: int
) -> list[str]:
    """The `srun` command that runs a program on one of the run's nodes, after lines of bash.

    The shell shares the run's allocation: `--overlap` and `--mem=0` make it reserve nothing, so that it
    neither waits for the run's processes nor takes resources from them.
    """
    words = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", f"--relative={node}", "--ntasks=1"]
    # --mpi=none: a shell is not an MPI program, whatever the default of the site is.
    words += ["--mpi=none", "--mem=0"]
    if prepare:
        # The lines print to stderr, so that stdout has only the output of the program.
        script = "\n".join(["{", *prepare, "} >&2", 'exec "$@"'])
        program = ["bash", "-c", script, "bash", *program]
    return [*words, *(["--pty"] if terminal else []), *program]


def explain(reason: str) -> str:
    """One line in plain words, followed by Slurm's own code, if it has one."""
    code = reason.strip().strip("()")
    # Slurm appends details to some codes: `ReqNodeNotAvail, UnavailableNodes:n1`.
    first = re.split(r"[,\s]", code, maxsplit=1)[0]
    words = _WORDS.get(first) or _explain_limit(first)
    if first == _NO_REASON:
        return _WORDS[first]
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
