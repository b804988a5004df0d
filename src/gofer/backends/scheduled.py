"""The common part of backends whose cluster has a queue of its own: gofer runs only agents on the nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from gofer.backends.base import Backend
from gofer.core import files, run_layout
from gofer.core.secrets import run_secrets
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import Reason, State
from gofer.errors import CheckFailed
from gofer.model.decode import convert
from gofer.model.job import Job
from gofer.model.layout import Layout, lay_out
from gofer.model.run import Observation


def lay_out_on_nodes(job: Job, *, gpus_per_node: int, target: str) -> Layout:
    """The layout. CheckFailed for a launcher that the agents do not support, or when GPUs are wanted and the
    number of GPUs in a node is not known.
    """
    if job.launcher not in ("spawn", "mpi", "torchrun"):
        raise CheckFailed(
            f"the target `{target}` does not support `launcher: {job.launcher}`",
            hint="leave `launcher` out: gofer starts the processes, with the variables of launchers",
        )
    # Without this number, gofer could not spread the GPUs over nodes.
    if job.resources.gpus and not gpus_per_node:
        raise CheckFailed(
            f"the job asks for {job.resources.gpus} GPUs, but the target `{target}` does not say how many "
            "GPUs a node has",
            hint="set `gpus_per_node:` in the target",
        )
    return lay_out(job, gpus_per_node=gpus_per_node, target=target)


class KeepsSecretsHere(Backend):
    """Keeps secrets in `_secrets_folder`, beside this machine's queue, until the cluster has them."""

    _secrets_folder: str

    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        run_secrets.write(self._secrets_folder, run_id, values)

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        for path, run_id in run_secrets.abandoned(self._secrets_folder).items():
            if not is_recorded(run_id):
                files.remove(path)

    def remove_secrets(self, run_id: str) -> None:
        run_secrets.remove(self._secrets_folder, run_id)


def forgotten(run_id: str, words: str, *, for_s: float, patience_s: float, now: float) -> Observation:
    """A run that was sent to the cluster, but that the cluster has not known for `for_s` seconds.

    Until the patience is over its state is unknown: its folder may say how it ended. After that it is lost.
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


def recorded_ends(store: str, run_ids: Iterable[str]) -> dict[str, Observation]:
    """The runs whose end is recorded in the folder of the store, so that the cluster need not be asked."""
    found: dict[str, Observation] = {}
    for run_id in run_ids:
        try:
            with open(os.path.join(store, run_layout.ends_key(run_id)), "rb") as file:
                ends = [end for end in files.read_lines(file.read()) if end.get("id") == run_id]
        except OSError:
            continue
        end = from_end(run_id, ends[-1]) if ends else None
        if end is not None:
            found[run_id] = end
    return found


def from_end(run_id: str, end: Mapping[str, object]) -> Observation | None:
    """The end of a run that its own job recorded; see gofer.node.slurm.end. None for a record that is not
    valid.

    Everybody with access to the store can write such a record, so it is checked.
    """
    known = {name: value for name, value in end.items() if name not in ("id", "row")}
    return convert({"attempts": (), **known, "run_id": run_id}, Observation)
