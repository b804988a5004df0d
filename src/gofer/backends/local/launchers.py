"""Which launchers this machine has."""

from __future__ import annotations

import os

from gofer.core.programs import locate
from gofer.errors import CheckFailed


def check(launcher: str, target: str) -> None:
    """CheckFailed when processes cannot be started so here."""
    if launcher not in ("spawn", "mpi", "torchrun"):
        raise CheckFailed(
            f"the target `{target}` cannot start processes by `launcher: {launcher}`",
            hint="leave `launcher` out: gofer starts them, with the variables that launchers set",
        )
    if launcher == "mpi" and locate("mpirun", os.environ.get("PATH", os.defpath)) is None:
        raise CheckFailed(
            f"`launcher: mpi` needs `mpirun` on the target `{target}`, and there is none",
            hint="install Open MPI (Debian: `apt-get install openmpi-bin`), or load its module first",
        )
