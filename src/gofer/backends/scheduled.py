"""What backends have in common whose cluster has a queue of its own, and only agents on its nodes."""

from __future__ import annotations

from collections.abc import Callable

from gofer.core import files
from gofer.core.secrets import run_secrets
from gofer.core.secrets.run_secrets import Private
from gofer.core.states import Reason, State
from gofer.errors import CheckFailed
from gofer.model.job import Job
from gofer.model.layout import Layout, lay_out
from gofer.model.run import Observation


def lay_out_on_nodes(job: Job, *, gpus_per_node: int, target: str) -> Layout:
    """CheckFailed for launchers that the agents do not know, and for GPUs of nobody knows how many a node."""
    if job.launcher not in ("spawn", "mpi", "torchrun"):
        raise CheckFailed(
            f"the target `{target}` cannot start processes by `launcher: {job.launcher}`",
            hint="leave `launcher` out: gofer starts them, with the variables that launchers set",
        )
    if job.resources.gpus and not gpus_per_node:
        raise CheckFailed(
            f"{job.resources.gpus} GPUs were asked for, and the target `{target}` does not say how many a "
            "node has",
            hint="set `gpus_per_node:` in the target",
        )
    return lay_out(job, gpus_per_node=gpus_per_node, target=target)


class SealsBeside:
    """Private values wait in `_seals`, a folder beside this machine's queue, until the cluster has them."""

    _seals: str

    def seal(self, run_id: str, values: Private) -> None:
        run_secrets.write(self._seals, run_id, values)

    def drop_seals(self, is_recorded: Callable[[str], bool]) -> None:
        for path, run_id in run_secrets.abandoned(self._seals).items():
            if not is_recorded(run_id):
                files.remove(path)

    def unseal(self, run_id: str) -> None:
        run_secrets.remove(self._seals, run_id)


def forgotten(run_id: str, words: str, *, for_s: float, patience_s: float, now: float) -> Observation:
    """A run that was given to the cluster, which has known nothing of it for so long: its folder may know,
    and when the patience is over it is lost.
    """
    if for_s < patience_s:
        return Observation(run_id=run_id, state=State.UNKNOWN, detail=words)
    return Observation(
        run_id=run_id,
        state=State.LOST,
        reason=Reason.NODE_FAILURE,
        detail=f"{words} within {patience_s:g} s",
        ended_at=now,
    )
