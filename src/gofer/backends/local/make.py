"""From a target's options to its backend."""

from __future__ import annotations

from typing import cast

import msgspec

from gofer.backends.local.backend import LocalBackend
from gofer.backends.local.options import LocalOptions
from gofer.backends.registry import Kind, Surroundings
from gofer.errors import UsageError


def make(options: msgspec.Struct, around: Surroundings) -> LocalBackend:
    """UsageError when runs could not reach the target's store."""
    if around.store_path is None and not around.is_lent:
        raise UsageError(
            f"runs cannot reach the store `{around.store_url}` of the target `{around.target}`",
            hint="give the target a store whose URL begins with `file://`, `az://` or `s3://`",
        )
    return LocalBackend(cast(LocalOptions, options), around)


KIND = Kind(LocalOptions, make)
