"""What a target of kind `local` may say about this machine."""

from __future__ import annotations

import msgspec


class LocalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`gpus`: GPUs to hand out (default: those the driver shows); `gpus_per_node`: of one node (default: all)."""

    gpus: int | None = None
    gpus_per_node: int | None = None
