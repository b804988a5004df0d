"""Makes the backend of a target from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.kind import BackendContext, Kind, KindChecks, check_reach
from gofer.backends.ssh.checks import ssh_checks
from gofer.backends.ssh.options import SshOptions, capabilities, login_to
from gofer.backends.ssh.set_up import set_up

if TYPE_CHECKING:
    from gofer.backends.ssh.backend import SshBackend
    from gofer.transport.ssh import Login


def make(options: SshOptions, context: BackendContext) -> SshBackend:
    """The backend of a target; UsageError when runs could not reach the target's store."""
    from gofer.backends.ssh.backend import SshBackend  # most commands only read the options

    check_reach(context)
    is_one = context.store_path is not None and not options.shared and context.placement
    return SshBackend(options, context, only=context.placement if is_one else None)


def login(options: SshOptions, placement: str) -> Login:
    """The login of the machine chosen for a run; else of the first machine, where a shared folder is read
    too.
    """
    return login_to(options, placement if placement and not options.shared else options.hosts[0])


KIND = Kind(
    SshOptions,
    make,
    login,
    capabilities,
    checks=KindChecks("ssh", ssh_checks, "ssh://"),
    set_up=set_up,
)
