"""From a target's options to its backend."""

from __future__ import annotations

from typing import cast

import msgspec

from gofer.backends.local.backend import LocalBackend
from gofer.backends.local.options import LocalOptions
from gofer.backends.registry import Kind, Surroundings
from gofer.errors import UsageError


def make(options: msgspec.Struct, around: Surroundings) -> LocalBackend:
    """UsageError when the target's store is not a folder of this machine."""
    if around.store_path is None:
        raise UsageError(
            f"the store `{around.store_url}` of the target `{around.target}` is not a folder of this machine",
            hint="give the target a store whose URL begins with `file://`",
        )
    return LocalBackend(
        around.target, cast(LocalOptions, options), engine=around.engine, store=around.store_path
    )


KIND = Kind(LocalOptions, make)
