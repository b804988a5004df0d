"""Checks whether this machine has a launcher."""

from __future__ import annotations

import os

from gofer.core.programs import locate
from gofer.errors import CheckFailed


def check(launcher: str, target: str) -> None:
    """Raise CheckFailed when this machine cannot start processes with the launcher."""
    if launcher not in ("spawn", "mpi", "torchrun"):
        raise CheckFailed(
            f"the target `{target}` does not support `launcher: {launcher}`",
            hint="leave `launcher` out: gofer starts the processes, with the variables of launchers",
        )
    if launcher == "mpi" and locate("mpirun", os.environ.get("PATH", os.defpath)) is None:
        raise CheckFailed(
            f"`launcher: mpi` needs `mpirun`, which the target `{target}` does not have",
            hint="install Open MPI (Debian: `apt-get install openmpi-bin`), or load its module first",
        )
