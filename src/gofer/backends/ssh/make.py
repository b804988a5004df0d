"""From a target's options to its backend."""

from __future__ import annotations

from typing import cast

import msgspec

from gofer.backends.registry import Kind, Surroundings
from gofer.backends.ssh.backend import SshBackend, login_to
from gofer.backends.ssh.options import SshOptions
from gofer.errors import UsageError
from gofer.transport.ssh import Login


def make(options: msgspec.Struct, around: Surroundings) -> SshBackend:
    """UsageError when runs could not reach the target's store."""
    said = cast(SshOptions, options)
    if around.store_path is None and not around.is_lent:
        raise UsageError(
            f"runs cannot reach the store `{around.store_url}` of the target `{around.target}`",
            hint="give the target a store whose URL begins with `file://`, `az://` or `s3://`",
        )
    is_one = around.store_path is not None and not said.shared
    return SshBackend(said, around, only=around.store_url.split("/")[2] if is_one else None)


def login(options: msgspec.Struct, placement: str) -> Login:
    """The machine that was chosen, or the first, which is also where a shared folder is read."""
    said = cast(SshOptions, options)
    return login_to(said, placement if placement and not said.shared else said.hosts[0])


KIND = Kind(SshOptions, make, login)
