"""What a site has and why runs wait there, as the backend contract says it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gofer.backends.base import NodeFacts, Waiting
from gofer.backends.slurm.reasons import explain
from gofer.backends.slurm.states import meaning_of
from gofer.core.states import State

_FREE = ("idle",)
_MIXED = ("mixed",)
_BUSY = ("allocated", "completing")


def nodes(found: Sequence[Mapping[str, Any]]) -> list[NodeFacts]:
    """In the order of their names."""
    return sorted((_node(one) for one in found), key=lambda one: one.name)


def _node(one: Mapping[str, Any]) -> NodeFacts:
    state, gpus = _state(one["state"]), sum(one["gpus"].values())
    is_up = state != "down"
    return NodeFacts(
        one["name"],
        state,
        one["state"],
        cpus=one["cpus"],
        cpus_free=one["cpus"] - one["cpus_used"] if is_up else 0,
        memory_mib=one["memory_mib"],
        gpus=gpus,
        gpus_free=gpus - sum(one["gpus_used"].values()) if is_up else 0,
        gpu_type=",".join(one["gpus"]),
        partitions=tuple(one["partitions"]),
    )


def _state(word: str) -> str:
    """A star says that the node does not answer; other marks that it sleeps, boots or is to be drained."""
    plain = word.rstrip("*~#!%$@^-+").lower()
    if word.endswith("*") or plain not in (*_FREE, *_MIXED, *_BUSY):
        return "down"
    return "free" if plain in _FREE else "mixed" if plain in _MIXED else "busy"


def waiting(found: Mapping[str, Any]) -> Waiting | None:
    """None for a run that does not wait."""
    if not found or meaning_of(found["state"]).state not in (State.QUEUED, State.PAUSED, State.STARTING):
        return None
    return Waiting(explain(found["reason"]), found["ahead"], found["estimate"])


def shell(job: str, command: Sequence[str], *, terminal: bool, node: int) -> list[str]:
    """Beside the run's own processes, on one of its nodes, and without taking anything from them."""
    words = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", f"--relative={node}", "--ntasks=1"]
    words += ["--mpi=none", "--mem=0"]
    return [*words, *(["--pty"] if terminal else []), *(command or ["bash", "-i"])]
