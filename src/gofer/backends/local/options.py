"""The options of a target of kind `local`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gofer.backends.base import Capabilities


class LocalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both options are for machines whose driver reports no GPUs, and to use fewer GPUs than there are."""

    gpus: (
        Annotated[int, Meta(ge=0, le=1024, description="GPUs for runs (default: those of the driver)")] | None
    ) = None
    gpus_per_node: (
        Annotated[int, Meta(ge=1, le=1024, description="GPUs of one node (default: all)")] | None
    ) = None


def capabilities(options: LocalOptions) -> Capabilities:
    return Capabilities(sees_environment=True, holds_runs=True, elastic=True)
