"""From a target's options to its backend."""

from __future__ import annotations

from typing import cast

import msgspec

from gofer.backends.azureml.backend import AzureBackend
from gofer.backends.azureml.options import AzureOptions, misplaced
from gofer.backends.registry import BackendContext, Kind
from gofer.errors import UsageError


def make(options: msgspec.Struct, around: BackendContext) -> AzureBackend:
    """UsageError when the target does not say where its jobs go, says what means nothing there, or
    its store is none that they can read.
    """
    found = cast(AzureOptions, options)
    for name, platforms in misplaced(found).items():
        raise UsageError(
            f"`{name}` of the target `{around.target}` means nothing with `platform: {found.platform}`",
            hint=f"leave it out, or set `platform: {platforms[0]}`",
        )
    needed = ["subscription_id", "resource_group", "workspace"]
    needed += ["virtual_cluster", "instance_type"] if found.platform == "singularity" else ["compute"]
    missing = [name for name in needed if not getattr(found, name)]
    if missing:
        raise UsageError(
            f"the target `{around.target}` needs {' and '.join(f'`{name}`' for name in missing)}",
            hint=f"add `{missing[0]}: …` to it in gofer.yaml",
        )
    if around.place_of(around.store_url) is None:
        raise UsageError(
            f"jobs on Azure ML cannot reach the store `{around.store_url}` of the target `{around.target}`",
            hint="give the target a store whose URL begins with `az://`",
        )
    return AzureBackend(found, around)


KIND = Kind(AzureOptions, make, has_jobs=True)
