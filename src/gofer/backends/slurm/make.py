"""Makes the backend of a target from its options."""

from __future__ import annotations

from gofer.backends.kind import BackendContext, Kind, check_reach
from gofer.backends.slurm.backend import SlurmBackend, login_of
from gofer.backends.slurm.options import SlurmOptions, capabilities
from gofer.backends.slurm.set_up import set_up
from gofer.transport.ssh import Login


def make(options: SlurmOptions, context: BackendContext) -> SlurmBackend:
    """The backend of a target; UsageError when runs could not reach the target's store."""
    check_reach(context)
    return SlurmBackend(options, context)


def login(options: SlurmOptions, placement: str) -> Login | None:
    return login_of(options)


KIND = Kind(SlurmOptions, make, login, capabilities, reads_sbatch=True, set_up=set_up)
