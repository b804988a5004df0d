"""What a target of kind `local` may say about this machine."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class LocalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """This machine; both options are for machines whose driver does not tell, or to hand out fewer."""

    gpus: (
        Annotated[int, Meta(ge=0, le=1024, description="GPUs to hand out; by default those the driver shows")]
        | None
    ) = None
    gpus_per_node: (
        Annotated[int, Meta(ge=1, le=1024, description="GPUs of one node; by default all of them")] | None
    ) = None
