"""Makes the backend of a target from its options."""

from __future__ import annotations

from typing import cast

import msgspec

from gofer.backends.azureml.backend import AzureBackend
from gofer.backends.azureml.options import AzureOptions, misplaced
from gofer.backends.registry import BackendContext, Kind
from gofer.errors import UsageError


def make(options: msgspec.Struct, context: BackendContext) -> AzureBackend:
    """The backend of a target.

    Raises UsageError when an option is missing, when an option does not apply to the platform, or when jobs
    on Azure ML cannot reach the target's store.
    """
    found = cast(AzureOptions, options)
    for name, platforms in misplaced(found).items():
        raise UsageError(
            f"`{name}` of the target `{context.target}` does not apply to `platform: {found.platform}`",
            hint=f"leave `{name}` out, or set `platform: {platforms[0]}`",
        )
    needed = ["subscription_id", "resource_group", "workspace"]
    needed += ["virtual_cluster", "instance_type"] if found.platform == "singularity" else ["compute"]
    missing = [name for name in needed if not getattr(found, name)]
    if missing:
        raise UsageError(
            f"the target `{context.target}` needs {' and '.join(f'`{name}`' for name in missing)}",
            hint=f"add `{missing[0]}: …` to the target in gofer.yaml",
        )
    if context.place_of(context.store_url) is None:
        raise UsageError(
            f"jobs on Azure ML cannot reach the store `{context.store_url}` of the target `{context.target}`",
            hint="give the target a store whose URL begins with `az://`",
        )
    return AzureBackend(found, context)


KIND = Kind(AzureOptions, make, has_jobs=True)
