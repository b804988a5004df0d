"""Makes the backend of a target from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from gofer.backends.registry import BackendContext, Kind, check_reach
from gofer.backends.ssh.options import SshOptions, login_to

if TYPE_CHECKING:
    from gofer.backends.ssh.backend import SshBackend
    from gofer.transport.ssh import Login


def make(options: msgspec.Struct, around: BackendContext) -> SshBackend:
    """The backend of a target; UsageError when runs could not reach the target's store."""
    from gofer.backends.ssh.backend import SshBackend  # most commands only read the options

    said = cast(SshOptions, options)
    check_reach(around)
    is_one = around.store_path is not None and not said.shared and around.placement
    return SshBackend(said, around, only=around.placement if is_one else None)


def login(options: msgspec.Struct, placement: str) -> Login:
    """The login of the machine chosen for a run; else of the first machine, where a shared folder is read
    too.
    """
    said = cast(SshOptions, options)
    return login_to(said, placement if placement and not said.shared else said.hosts[0])


KIND = Kind(SshOptions, make, login)
