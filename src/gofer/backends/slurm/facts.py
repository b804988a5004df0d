"""What a site has and why its runs wait, in the terms of the backend contract. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gofer.backends.base import NodeFacts, Waiting
from gofer.backends.slurm.reasons import explain
from gofer.backends.slurm.status import meaning_of
from gofer.core.states import State
from gofer.remote.api import QueuedJob, SlurmNodeFacts

_FREE = ("idle",)
_MIXED = ("mixed",)
_BUSY = ("allocated", "completing")


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


def _state(word: str) -> str:
    """The state in gofer's terms.

    Slurm adds marks to the word: a star means that the node does not answer, others that it sleeps, boots or
    will be drained.
    """
    plain = word.rstrip("*~#!%$@^-+").lower()
    if word.endswith("*") or plain not in (*_FREE, *_MIXED, *_BUSY):
        return "down"
    return "free" if plain in _FREE else "mixed" if plain in _MIXED else "busy"


def waiting(job: QueuedJob) -> Waiting | None:
    """Why the run of a job waits; None for a run that does not wait."""
    if meaning_of(job.state).state not in (State.QUEUED, State.PAUSED, State.STARTING):
        return None
    return Waiting(explain(job.reason), job.ahead, job.estimate)


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
