"""The options of a target of kind `azureml`: its workspace and its jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gofer.backends.base import Capabilities
from gofer.config.sections import NAME_PATTERN
from gofer.core.store_spec import IdentitySpec


def _text(description: str, **more: Any) -> Any:
    return Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description=description, **more)


# Names become parts of URLs, so characters with a meaning in URLs are refused. `$` alone would allow a line
# end.
_NAME = r"^[^\s/?#%\\]+$(?!\n)"
_ID = r"^(/subscriptions/[^\s?#]+|[^\s/?#%\\]+)$(?!\n)"


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bounds within which Singularity may grow and shrink a job, and how often it decides."""

    min: Annotated[int, Meta(ge=1, description="The smallest number of nodes")] = 1
    max: Annotated[int, Meta(ge=1, description="The largest number of nodes")] = 1
    interval_s: Annotated[int, Meta(ge=1, description="Seconds between two decisions")] = 120


class AzureOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where jobs run and what they get. Options that are left out take the service's defaults."""

    profile: (
        Annotated[
            str,
            Meta(
                pattern=NAME_PATTERN,
                description="The profile of Azure logins to use (default: the profile in use)",
            ),
        ]
        | None
    ) = None
    platform: Annotated[
        Literal["aml", "itp", "singularity"],
        Meta(description="Azure ML computes, Kubernetes attached to the workspace, or a virtual cluster"),
    ] = "aml"
    subscription_id: (
        Annotated[str, Meta(pattern=_NAME, description="The workspace's subscription")] | None
    ) = None
    resource_group: (
        Annotated[str, Meta(pattern=_NAME, description="The workspace's resource group")] | None
    ) = None
    workspace: Annotated[str, Meta(pattern=_NAME, description="The workspace's name")] | None = None
    compute: (
        Annotated[str, Meta(pattern=_NAME, description="The compute's name (platforms `aml` and `itp`)")]
        | None
    ) = None
    virtual_cluster: (
        Annotated[
            str,
            Meta(pattern=_ID, description="Singularity: a name in this resource group, or a complete ARM id"),
        ]
        | None
    ) = None
    instance_type: (
        Annotated[str, Meta(pattern=_NAME, description="`ND40_v2g1`; on Kubernetes, an instance type's name")]
        | None
    ) = None
    sla: (
        Annotated[
            Literal["premium", "standard", "basic"],
            Meta(description="Singularity: the tier (default: `premium`); others can lose their nodes"),
        ]
        | None
    ) = None
    priority: (
        Annotated[
            Literal["high", "medium", "low"],
            Meta(description="Singularity: priority among the jobs of one tier (default: `high`)"),
        ]
        | None
    ) = None
    locations: Annotated[
        tuple[Annotated[str, Meta(pattern=_NAME)], ...],
        Meta(description="Singularity: regions where jobs may run (default: all of the virtual cluster)"),
    ] = ()
    gpus_per_node: Annotated[
        int, Meta(ge=0, le=1024, description="GPUs of one node; 0 for a compute without GPUs")
    ] = 0
    image: Annotated[str, _text("The Docker image of the jobs; it must contain Python")] | None = None
    environment: (
        Annotated[
            str,
            _text("Instead of `image`: `NAME:VERSION`, `NAME@LABEL` or `azureml://registries/…`"),
        ]
        | None
    ) = None
    image_version: Annotated[str, _text("Singularity: `imageVersion`, an image of the service")] | None = None
    experiment: Annotated[str, _text("The experiment of the runs (default: the user's name)")] | None = None
    preemptible: (
        Annotated[bool, Meta(description="ITP: whether others may displace a job (default: `false`)")] | None
    ) = None
    interactive: Annotated[bool, Meta(description="Whether `gofer ssh` can open a shell beside a run")] = (
        False
    )
    ssh_public_key: (
        Annotated[str, _text("The key for `gofer ssh`: its text or file (default: a key of ~/.ssh)")] | None
    ) = None
    identity: (
        Annotated[
            str,
            _text("How nodes open the store: `managed`, `user`, or the client or resource id of an identity"),
        ]
        | None
    ) = None
    datastore: (
        Annotated[
            str, Meta(pattern=r"^\w+$(?!\n)", description="A datastore of the workspace that opens the store")
        ]
        | None
    ) = None
    python: Annotated[str, _text("Python 3.8 or newer in the image")] = "python3"
    shm_size: (
        Annotated[str, Meta(pattern=r"^[0-9]+[bkmgBKMG]$(?!\n)", description="Shared memory: `64g`")] | None
    ) = None
    docker_args: Annotated[str, _text("Additional arguments of `docker run`")] | None = None
    enable_azml_int: Annotated[bool, Meta(description="Singularity: `enableAzmlInt`")] | None = None
    scale: Scale | None = None
    time: (
        Annotated[
            float,
            Meta(description="The time limit of jobs that set none", extra={"duration": "positive"}),
        ]
        | None
    ) = None
    patience: Annotated[
        float,
        Meta(
            description="How long the service may not know a submitted run before the run is lost",
            extra={"duration": "positive"},
        ),
    ] = 600.0
    cloud: (
        Annotated[
            Literal["azure", "usgov", "china"],
            Meta(description="The Azure cloud (default: that of the login); ARM_CLOUD_METADATA_URL wins"),
        ]
        | None
    ) = None

    @property
    def tier(self) -> str:
        """The SLA tier of jobs on Singularity."""
        return self.sla or "premium"


# Options that apply to some platforms only.
_ONLY_ON = {
    "virtual_cluster": ("singularity",),
    "sla": ("singularity",),
    "priority": ("singularity",),
    "locations": ("singularity",),
    "image_version": ("singularity",),
    "enable_azml_int": ("singularity",),
    "scale": ("singularity",),
    "compute": ("aml", "itp"),
    "preemptible": ("itp",),
}


def misplaced(options: AzureOptions) -> dict[str, tuple[str, ...]]:
    """The given options that do not apply to the platform, each with the platforms to which it applies."""
    return {
        name: platforms
        for name, platforms in _ONLY_ON.items()
        if getattr(options, name) not in (None, ()) and options.platform not in platforms
    }


def capabilities(options: AzureOptions) -> Capabilities:
    """What the options say of a target. `shows_credentials`: they are in the store, beside the request of the
    run.
    """
    return Capabilities(
        has_ends_in_folder=True,
        decides_grace=True,
        shows_credentials=True,
        mounts_folders=True,
        time_limit_s=options.time,
        node_identity=_node_identity(options.identity),
        profile=options.profile,
        image=options.image,
        is_image_wrapped=options.platform == "singularity",
        shell_on_request=not options.interactive,
    )


def _node_identity(identity: str | None) -> IdentitySpec | None:
    if identity is None:
        return None
    if identity in ("managed", "user"):
        return {"client_id": None}
    if identity.startswith("/"):
        return {"client_id": None, "resource_id": identity}
    return {"client_id": identity}
