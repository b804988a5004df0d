"""The bodies of requests for a new cluster and for its node pool. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gofer.errors import UsageError

Json = dict[str, Any]
# Written on all that gofer makes, with the project; only what has this tag is ever removed.
MADE_TAG = "gofer-made"
SYSTEM_POOL = "sys"
DEFAULT_POOL = "gpu"
_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_SIZE = re.compile(r"(\d{1,4})(?::(\d{1,4}))?")
_TAINT = re.compile(r"[\w./-]+=[\w.-]*:(NoSchedule|PreferNoSchedule|NoExecute)")
# The service writes these into what it returns and takes them from nobody.
_READ_ONLY = ("eTag", "provisioningState", "currentOrchestratorVersion", "nodeImageVersion", "status")


class PoolSize(NamedTuple):
    """How many nodes: a fixed number, or bounds within which the autoscaler of the cluster decides."""

    least: int
    most: int

    @property
    def is_automatic(self) -> bool:
        return self.most > self.least

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.is_automatic else str(self.least)


class PoolPlan(NamedTuple):
    """A pool of nodes for work. `gpus` is the number of one node, by its size."""

    name: str
    vm_size: str
    size: PoolSize
    gpus: int = 0
    is_spot: bool = False
    taints: tuple[str, ...] = ()


class ClusterPlan(NamedTuple):
    """A cluster with one small node for its own programs, and a pool for work. `made_for` is the project."""

    location: str
    dns_prefix: str
    system_vm_size: str
    pool: PoolPlan
    made_for: str
    kubernetes_version: str = ""


def parse_size(text: str) -> PoolSize:
    """`3`, or `1:5` for an autoscaler; UsageError for anything else."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageError(f"`{text}` is no number of nodes", hint="write `3`, or `1:5` for an autoscaler")
    least, most = int(found[1]), int(found[2] or found[1])
    if most < least:
        raise UsageError(f"`{text}` has its bounds in the wrong order", hint=f"write `{most}:{least}`")
    return PoolSize(least, most)


def check_pool(pool: PoolPlan) -> None:
    """UsageError for a name or a taint that Azure does not take."""
    if not _POOL_NAME.fullmatch(pool.name):
        raise UsageError(
            f"`{pool.name}` cannot be the name of a node pool",
            hint="use at most 12 lower-case letters and digits, a letter first",
        )
    for taint in pool.taints:
        if not _TAINT.fullmatch(taint):
            raise UsageError(f"`{taint}` is no taint", hint="write it like `sku=gpu:NoSchedule`")


def cluster_body(plan: ClusterPlan) -> Json:
    """The body of the request that makes the cluster with both pools."""
    system = {
        "name": SYSTEM_POOL,
        "count": 1,
        "vmSize": plan.system_vm_size,
        "osType": "Linux",
        "type": "VirtualMachineScaleSets",
        "mode": "System",
    }
    pool = {"name": plan.pool.name, **pool_properties(plan.pool, plan.made_for)}
    version = {"kubernetesVersion": plan.kubernetes_version} if plan.kubernetes_version else {}
    return {
        "location": plan.location,
        "tags": {MADE_TAG: plan.made_for},
        "sku": {"name": "Base", "tier": "Free"},
        "identity": {"type": "SystemAssigned"},
        "properties": {
            **version,
            "dnsPrefix": plan.dns_prefix,
            "enableRBAC": True,
            "agentPoolProfiles": [system, pool],
            "networkProfile": {"networkPlugin": "azure", "networkPluginMode": "overlay"},
            "oidcIssuerProfile": {"enabled": True},
            "securityProfile": {"workloadIdentity": {"enabled": True}},
            "storageProfile": {"blobCSIDriver": {"enabled": True}},
        },
    }


def pool_properties(pool: PoolPlan, made_for: str) -> Json:
    """The properties of a new pool for work."""
    made: Json = {
        "count": pool.size.least,
        "vmSize": pool.vm_size,
        "osType": "Linux",
        "type": "VirtualMachineScaleSets",
        "mode": "User",
        "scaleDownMode": "Delete",
        "tags": {MADE_TAG: made_for},
    }
    if pool.size.is_automatic:
        made |= {"enableAutoScaling": True, "minCount": pool.size.least, "maxCount": pool.size.most}
    if pool.is_spot:
        made |= {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Delete", "spotMaxPrice": -1.0}
    if pool.taints:
        made["nodeTaints"] = list(pool.taints)
    if pool.gpus:
        made["gpuProfile"] = {"driver": "Install"}
    return made


def resized(properties: Mapping[str, Any], size: PoolSize) -> Json | None:
    """The properties of a pool with another size; None when it has this size already."""
    kept = {key: value for key, value in properties.items() if key not in _READ_ONLY}
    automatic = bool(kept.get("enableAutoScaling"))
    if size.is_automatic:
        if automatic and (kept.get("minCount"), kept.get("maxCount")) == tuple(size):
            return None
        count = min(max(int(kept.get("count") or 0), size.least), size.most)
        bounds = {"minCount": size.least, "maxCount": size.most}
        return {**kept, "enableAutoScaling": True, **bounds, "count": count}
    if not automatic and kept.get("count") == size.least:
        return None
    for key in ("minCount", "maxCount"):
        kept.pop(key, None)
    return {**kept, "enableAutoScaling": False, "count": size.least}


def is_made(resource: Mapping[str, Any]) -> bool:
    """Whether gofer made the cluster, the resource group or the pool."""
    tags = resource.get("tags") or (resource.get("properties") or {}).get("tags") or {}
    return MADE_TAG in tags
