"""Makes the backend of a target from its options."""

from __future__ import annotations

from typing import cast

import msgspec

from gofer.backends.registry import BackendContext, Kind
from gofer.backends.slurm.backend import SlurmBackend, login_of
from gofer.backends.slurm.options import SlurmOptions
from gofer.errors import UsageError
from gofer.transport.ssh import Login


def make(options: msgspec.Struct, context: BackendContext) -> SlurmBackend:
    """The backend of a target; UsageError when runs could not reach the target's store."""
    if context.store_path is None and not context.is_lent:
        raise UsageError(
            f"runs cannot reach the store `{context.store_url}` of the target `{context.target}`",
            hint="give the target a store whose URL begins with `file://`, `az://` or `s3://`",
        )
    return SlurmBackend(cast(SlurmOptions, options), context)


def login(options: msgspec.Struct, placement: str) -> Login | None:
    return login_of(cast(SlurmOptions, options))


KIND = Kind(SlurmOptions, make, login)
