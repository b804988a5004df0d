"""The client of Azure Kubernetes Service: clusters, node pools, resource groups, and the quota of cores.

Takes and returns plain JSON. Changes return at once; `Arm.operation` says how far they are.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gofer.errors import BackendError
from gofer.transport.azure.arm import AcceptedChange, Arm, Json
from gofer.transport.azure.cloud import find_cloud
from gofer.transport.azure.credential import AzureCredential

CLUSTERS_API = "2026-08-01"
GROUPS_API = "2021-04-01"
USAGES_API = "2024-07-01"
SKUS_API = "2021-07-01"
_PROVIDER = "Microsoft.ContainerService"


class ClusterName(NamedTuple):
    """A cluster by its names in Resource Manager."""

    subscription: str
    group: str
    name: str

    @property
    def group_id(self) -> str:
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"

    @property
    def id(self) -> str:
        return f"{self.group_id}/providers/{_PROVIDER}/managedClusters/{self.name}"

    def pool_id(self, pool: str) -> str:
        return f"{self.id}/agentPools/{pool}"


class CoreUsage(NamedTuple):
    """How many cores of a family a subscription uses in a location, and how many it may use."""

    used: int
    limit: int

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


class VmSize(NamedTuple):
    """A size of virtual machine in a location. `refusal` is why this subscription cannot have it, if so."""

    name: str
    family: str
    cores: int
    gpus: int
    memory_gib: float
    refusal: str = ""


def connect(environ: Mapping[str, str], queue_home: str, remember: Callable[[str], None]) -> Arm:
    """A client with the login of `environ`; tokens and the addresses of the cloud are kept in `queue_home`.

    Reads the description of the cloud at most once a day; connects to Resource Manager on the first call.
    """
    folder = os.path.join(queue_home, "azure")
    cloud = find_cloud(environ, folder)
    return Arm(cloud, AzureCredential(folder, environ, authority=cloud.authority, remember=remember))


class ClusterService:
    """Blocking; any thread may call. Raises the errors of gofer.transport.azure.problems.

    Changes may be sent twice: each has a condition, under which a second one changes nothing.
    """

    def __init__(self, arm: Arm) -> None:
        self.arm = arm

    # -- clusters

    def find(self, cluster: ClusterName) -> Json | None:
        """The cluster; None when there is none, or no such resource group."""
        return self.arm.find(cluster.id, CLUSTERS_API)

    def create(self, cluster: ClusterName, body: Mapping[str, Any], etag: str = "") -> AcceptedChange:
        """Make the cluster; RequestRejected with status 412 when one has this name.

        With `etag`, that of a cluster whose creation has failed, it is made again.
        """
        condition = {"If-Match": etag} if etag else {"If-None-Match": "*"}
        return self.arm.change("PUT", cluster.id, CLUSTERS_API, body, condition)

    def delete(self, cluster: ClusterName) -> AcceptedChange:
        """Remove the cluster. Idempotent: nothing happens when there is none."""
        return self.arm.change("DELETE", cluster.id, CLUSTERS_API)

    def kubeconfig(self, cluster: ClusterName) -> bytes:
        """The kubeconfig of a user; ResourceNotFound without such a cluster."""
        answer = self.arm.post(f"{cluster.id}/listClusterUserCredential", CLUSTERS_API, format="exec")
        try:
            return base64.b64decode(answer["kubeconfigs"][0]["value"])
        except (KeyError, IndexError, TypeError, ValueError):
            raise BackendError(f"the answer has no kubeconfig of the cluster `{cluster.name}`") from None

    # -- node pools

    def find_pool(self, cluster: ClusterName, pool: str) -> Json | None:
        return self.arm.find(cluster.pool_id(pool), CLUSTERS_API)

    def create_pool(self, cluster: ClusterName, pool: str, properties: Mapping[str, Any]) -> AcceptedChange:
        """Make a node pool; RequestRejected with status 412 when one has this name."""
        return self._put_pool(cluster, pool, properties, {"If-None-Match": "*"})

    def change_pool(
        self, cluster: ClusterName, pool: str, properties: Mapping[str, Any], etag: str
    ) -> AcceptedChange:
        """Replace the properties of a pool; RequestRejected with status 412 when it has changed since it had
        `etag`.
        """
        return self._put_pool(cluster, pool, properties, {"If-Match": etag})

    def delete_pool(self, cluster: ClusterName, pool: str) -> AcceptedChange:
        """Remove a node pool. Idempotent."""
        return self.arm.change("DELETE", cluster.pool_id(pool), CLUSTERS_API)

    def _put_pool(
        self, cluster: ClusterName, pool: str, properties: Mapping[str, Any], condition: Mapping[str, str]
    ) -> AcceptedChange:
        path = cluster.pool_id(pool)
        return self.arm.change("PUT", path, CLUSTERS_API, {"properties": properties}, condition)

    # -- resource groups

    def find_group(self, cluster: ClusterName) -> Json | None:
        """The resource group of the cluster."""
        return self.arm.find(cluster.group_id, GROUPS_API)

    def create_group(self, cluster: ClusterName, location: str, tags: Mapping[str, str]) -> None:
        """Make the resource group. Idempotent; RequestRejected when one of this name is elsewhere."""
        self.arm.put(cluster.group_id, GROUPS_API, {"location": location, "tags": dict(tags)})

    def group_resources(self, cluster: ClusterName) -> list[Json]:
        """What is in the resource group."""
        pages = self.arm.pages(f"{cluster.group_id}/resources", GROUPS_API)
        return [resource for page in pages for resource in page]

    def delete_group(self, cluster: ClusterName) -> AcceptedChange:
        """Remove the resource group and all that is in it; ResourceNotFound when there is none."""
        return self.arm.change("DELETE", cluster.group_id, GROUPS_API)

    # -- sizes and quotas

    def usages(self, subscription: str, location: str) -> dict[str, CoreUsage]:
        """The cores in use and their limits, by family: `cores` is the sum, `lowPriorityCores` those of spot
        nodes.
        """
        path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/usages"
        rows = [row for page in self.arm.pages(path, USAGES_API) for row in page]
        return {
            str((row.get("name") or {}).get("value")): CoreUsage(
                _whole(row.get("currentValue")), _whole(row.get("limit"))
            )
            for row in rows
        }

    def vm_sizes(self, subscription: str, location: str) -> dict[str, VmSize]:
        """The sizes of virtual machines in a location, by their names in lower case."""
        path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus"
        query = {"$filter": f"location eq '{location}'"}
        rows = [row for page in self.arm.pages(path, SKUS_API, **query) for row in page]
        sizes = [_vm_size(row, location) for row in rows if row.get("resourceType") == "virtualMachines"]
        return {size.name.lower(): size for size in sizes}


def _vm_size(row: Mapping[str, Any], location: str) -> VmSize:
    facts = {str(one.get("name")): str(one.get("value")) for one in row.get("capabilities") or ()}
    return VmSize(
        str(row.get("name")),
        str(row.get("family")),
        _whole(facts.get("vCPUs")),
        _whole(facts.get("GPUs")),
        float(facts.get("MemoryGB") or 0),
        _refusal(row, location),
    )


def _refusal(row: Mapping[str, Any], location: str) -> str:
    """A restriction of zones alone leaves the size usable."""
    for one in row.get("restrictions") or ():
        places = [str(place).lower() for place in one.get("values") or ()]
        if one.get("type") == "Location" and (not places or location.lower() in places):
            return str(one.get("reasonCode") or "NotAvailableForSubscription")
    return ""


def _whole(value: object) -> int:
    """The number that the service writes as text or as a number; 0 for anything else."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0
