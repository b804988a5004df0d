"""Makes the backend of a target from its options."""

from __future__ import annotations

import msgspec

from gofer.backends.azureml.backend import AzureBackend
from gofer.backends.azureml.checks import azure_checks
from gofer.backends.azureml.options import AzureOptions, capabilities, misplaced
from gofer.backends.azureml.set_up import set_up
from gofer.backends.kind import BackendContext, Kind, KindChecks
from gofer.errors import UsageError


def make(options: AzureOptions, context: BackendContext) -> AzureBackend:
    """The backend of a target.

    Raises UsageError when an option is missing, when an option does not apply to the platform, or when jobs
    on Azure ML cannot reach the target's store.
    """
    for name, platforms in misplaced(options).items():
        raise UsageError(
            f"`{name}` of the target `{context.target}` does not apply to `platform: {options.platform}`",
            hint=f"leave `{name}` out, or set `platform: {platforms[0]}`",
        )
    needed = ["subscription_id", "resource_group", "workspace"]
    needed += ["virtual_cluster", "instance_type"] if options.platform == "singularity" else ["compute"]
    missing = [name for name in needed if not getattr(options, name)]
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
    return AzureBackend(msgspec.structs.replace(options, image=context.image), context)


KIND = Kind(
    AzureOptions,
    make,
    capabilities=capabilities,
    has_jobs=True,
    uses_azure_login=True,
    checks=KindChecks("azure", azure_checks, "az://"),
    set_up=set_up,
)
