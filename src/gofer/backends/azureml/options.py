"""What a target of kind `azureml` says of its workspace and of the jobs there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gofer.config.sections import NAME_PATTERN


def _text(description: str, **more: Any) -> Any:
    return Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description=description, **more)


_NAME = r"^[^\s/?#%\\]+$(?!\n)"
_ID = r"^(/subscriptions/[^\s?#]+|[^\s/?#%\\]+)$(?!\n)"


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Between how many nodes Singularity may let a job grow and shrink, and how often it looks."""

    min: Annotated[int, Meta(ge=1, description="The fewest nodes")] = 1
    max: Annotated[int, Meta(ge=1, description="The most nodes")] = 1
    interval_s: Annotated[int, Meta(ge=1, description="Seconds between two looks")] = 120


class AzureOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where jobs go and what they are given; what is left out is what the service gives by default."""

    profile: (
        Annotated[
            str,
            Meta(
                pattern=NAME_PATTERN,
                description="The profile of Azure logins that asks; by default the one in use",
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
            Meta(pattern=_ID, description="Singularity: a name beside the workspace, or a whole ARM id"),
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
            Meta(description="Singularity: `premium` by default; nodes of the others may be taken back"),
        ]
        | None
    ) = None
    priority: (
        Annotated[
            Literal["high", "medium", "low"],
            Meta(description="Singularity: among the jobs of one tier; `high` by default"),
        ]
        | None
    ) = None
    locations: Annotated[
        tuple[Annotated[str, Meta(pattern=_NAME)], ...],
        Meta(description="Singularity: regions the job may run in; by default all of the virtual cluster"),
    ] = ()
    gpus_per_node: Annotated[
        int, Meta(ge=0, le=1024, description="GPUs of one node; 0 is a compute without")
    ] = 0
    image: Annotated[str, _text("The docker image to run in; it must hold Python")] | None = None
    environment: (
        Annotated[
            str,
            _text("Instead of `image`: `NAME:VERSION`, `NAME@LABEL` or `azureml://registries/…`"),
        ]
        | None
    ) = None
    image_version: Annotated[str, _text("Singularity: `imageVersion`, one of its own images")] | None = None
    experiment: Annotated[str, _text("The experiment of the runs; by default the user's name")] | None = None
    preemptible: (
        Annotated[bool, Meta(description="ITP: whether a job may be stopped for others; `false` by default")]
        | None
    ) = None
    interactive: Annotated[bool, Meta(description="Whether `gofer ssh` can open a shell beside a run")] = (
        False
    )
    ssh_public_key: (
        Annotated[str, _text("The key for that: its text or its file; by default one of ~/.ssh")] | None
    ) = None
    identity: (
        Annotated[
            str,
            _text("`managed`, `user`, or the client or resource id of an identity: opens the store on nodes"),
        ]
        | None
    ) = None
    datastore: (
        Annotated[
            str, Meta(pattern=r"^\w+$(?!\n)", description="A datastore of the workspace to use for the store")
        ]
        | None
    ) = None
    python: Annotated[str, _text("Python 3.8 or newer in the image")] = "python3"
    shm_size: (
        Annotated[str, Meta(pattern=r"^[0-9]+[bkmgBKMG]$(?!\n)", description="Shared memory: `64g`")] | None
    ) = None
    docker_args: Annotated[str, _text("More arguments of `docker run`")] | None = None
    enable_azml_int: Annotated[bool, Meta(description="Singularity: `enableAzmlInt`")] | None = None
    scale: Scale | None = None
    time: (
        Annotated[
            float,
            Meta(description="The time limit of jobs that name none", extra={"duration": "positive"}),
        ]
        | None
    ) = None
    patience: Annotated[
        float,
        Meta(
            description="A run that the service knows nothing of any more is lost after this long",
            extra={"duration": "positive"},
        ),
    ] = 600.0
    cloud: (
        Annotated[
            Literal["azure", "usgov", "china"],
            Meta(description="By default that of the login; ARM_CLOUD_METADATA_URL goes first"),
        ]
        | None
    ) = None

    @property
    def tier(self) -> str:
        """The SLA tier of jobs on Singularity."""
        return self.sla or "premium"


# Options that mean nothing on the other platforms.
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
    """The options that were given and mean nothing on the platform, each with those where it does."""
    return {
        name: platforms
        for name, platforms in _ONLY_ON.items()
        if getattr(options, name) not in (None, ()) and options.platform not in platforms
    }
