"""The options of a target of kind `kubernetes`: the cluster, and what its pods get."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gofer.backends.base import Capabilities


def _text(description: str, **more: Any) -> Any:
    return Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description=description, **more)


# A name of a namespaced object of Kubernetes.
_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$(?!\n)"
# The name of a label, of an annotation or of a resource: `nvidia.com/gpu`.
_QUALIFIED = r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$(?!\n)"
_SIZE = r"^[0-9]+[KMGT]?$(?!\n)"
_ARM_NAME = r"^[^\s/?#%\\]+$(?!\n)"


class AksOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cluster of the Azure Kubernetes Service, by its name in Azure."""

    subscription_id: Annotated[str, Meta(pattern=_ARM_NAME, description="The cluster's subscription")]
    resource_group: Annotated[str, Meta(pattern=_ARM_NAME, description="The cluster's resource group")]
    cluster: Annotated[str, Meta(pattern=_ARM_NAME, description="The cluster's name")]
    pool: (
        Annotated[
            str,
            Meta(pattern=_ARM_NAME, description="The node pool that `gofer cluster scale` changes"),
        ]
        | None
    ) = None


class Toleration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A taint that the pods tolerate, with the fields of Kubernetes."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None


class KubernetesOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How gofer reaches the cluster and what it asks of it. Options that are left out take the cluster's
    defaults.
    """

    kubeconfig: Annotated[str, _text("The kubeconfig file (default: as `kubectl` finds it)")] | None = None
    context: Annotated[str, _text("The context of the kubeconfig (default: the current one)")] | None = None
    namespace: (
        Annotated[
            str, Meta(pattern=_NAME, description="The namespace of the runs (default: that of the context)")
        ]
        | None
    ) = None
    aks: AksOptions | None = None
    profile: Annotated[str, _text("With `aks`: the profile of Azure logins to use")] | None = None
    image: Annotated[str, _text("The image of the pods; it must contain Python")] | None = None
    pull_secret: (
        Annotated[str, Meta(pattern=_NAME, description="The Secret with the registry's credentials")] | None
    ) = None
    pull_policy: Annotated[
        Literal["IfNotPresent", "Always", "Never"], Meta(description="When the image is pulled")
    ] = "IfNotPresent"
    python: Annotated[str, _text("Python 3.8 or newer in the image")] = "python3"
    python_image: (
        Annotated[
            str,
            _text("An image whose Python is copied beside `image`, for an image without Python"),
        ]
        | None
    ) = None
    gpus_per_node: Annotated[
        int, Meta(ge=0, le=1024, description="GPUs of one pod at most; 0 for a cluster without GPUs")
    ] = 0
    gpu_resource: Annotated[
        str, Meta(pattern=_QUALIFIED, description="The resource that GPUs are: `nvidia.com/mig-1g.10gb`")
    ] = "nvidia.com/gpu"
    gpu_type: (
        Annotated[str, Meta(pattern=r"^[\w.-]+$(?!\n)", description="Words in the names of the GPUs: `H100`")]
        | None
    ) = None
    cpus_per_gpu: (
        Annotated[int, Meta(ge=1, description="CPUs for each GPU, for jobs that set no CPUs")] | None
    ) = None
    cpus_per_node: (
        Annotated[int, Meta(ge=1, description="CPUs of each pod, for jobs that set no CPUs and use no GPUs")]
        | None
    ) = None
    mem_per_gpu: Annotated[str, Meta(pattern=_SIZE, description="Memory for each GPU: `60G`")] | None = None
    mem_per_node: Annotated[str, Meta(pattern=_SIZE, description="Memory of each pod: `16G`")] | None = None
    shm: (
        Annotated[str, Meta(pattern=_SIZE, description="Shared memory (default: half of the pod's memory)")]
        | None
    ) = None
    disk: (
        Annotated[str, Meta(pattern=_SIZE, description="Disk of the node that each pod asks for")] | None
    ) = None
    queue: (
        Annotated[str, Meta(pattern=_NAME, description="Kueue: the LocalQueue in which runs wait")] | None
    ) = None
    priority_class: (
        Annotated[str, Meta(pattern=_NAME, description="The PriorityClass; with Kueue, its priority class")]
        | None
    ) = None
    topology: (
        Annotated[
            str,
            Meta(pattern=_QUALIFIED, description="Kueue: the node label whose value all pods must share"),
        ]
        | None
    ) = None
    recovery: Annotated[
        Literal["safe", "fast"],
        Meta(description="How a pod on a dead node is replaced: never twice, or soon"),
    ] = "safe"
    security: Annotated[
        Literal["restricted", "image"],
        Meta(description="Pods as PodSecurity `restricted` demands, or as the image says"),
    ] = "restricted"
    service_account: (
        Annotated[str, Meta(pattern=_NAME, description="The service account of the pods (default: none)")]
        | None
    ) = None
    node_selector: Annotated[dict[str, str], Meta(description="Labels that nodes must have")] = {}
    tolerations: Annotated[
        tuple[Toleration, ...], Meta(description="More taints that the pods tolerate")
    ] = ()
    spot: Annotated[bool, Meta(description="Whether pods may run on spot nodes")] = False
    rdma: (
        Annotated[
            str, Meta(pattern=_QUALIFIED, description="A resource for RDMA, of which each pod gets one")
        ]
        | None
    ) = None
    host_network: Annotated[bool, Meta(description="Whether pods use the network of their node")] = False
    array_limit: Annotated[int, Meta(ge=1, description="Rows of an array that may run at once")] = 64
    time: (
        Annotated[
            float,
            Meta(description="The time limit of jobs that set none", extra={"duration": "positive"}),
        ]
        | None
    ) = None
    ttl: Annotated[
        float,
        Meta(
            description="How long the cluster keeps the Job of an ended run", extra={"duration": "positive"}
        ),
    ] = 7 * 86400.0
    patience: Annotated[
        float,
        Meta(
            description="How long the cluster may not know a submitted run before the run is lost",
            extra={"duration": "positive"},
        ),
    ] = 120.0
    image_patience: Annotated[
        float,
        Meta(
            description="How long an image may not be pulled before the run fails",
            extra={"duration": "positive"},
        ),
    ] = 600.0
    pod: Annotated[
        dict[str, Any], Meta(description="More fields of the pod template, merged into that of gofer")
    ] = {}


def capabilities(options: KubernetesOptions) -> Capabilities:
    """What the options say of a target."""
    return Capabilities(
        has_ends_in_folder=True,
        time_limit_s=options.time,
        profile=options.profile,
        image=options.image,
    )
