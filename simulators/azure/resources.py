"""What exists before anyone asks: a workspace with computes and a virtual cluster; and making more."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from simulators.azure.clock import stamp
from simulators.azure.documents import Documents
from simulators.azure.messages import Json
from simulators.azure.storage import Storage
from simulators.azure.tokens import TENANT

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
GROUP = "sim-group"
WORKSPACE = "sim-ws"
PROVIDER = "Microsoft.MachineLearningServices"
# name, series, GPUs of one instance, description
INSTANCE_TYPES = (
    ("ND40rs_v2", "NDv2", 8, "8 x V100 32 GB"),
    ("ND40_v2g1", "NDv2", 1, "1 x V100 32 GB"),
    ("ND96asr_v4", "NDv4", 8, "8 x A100 40 GB"),
    ("ND12_v4g1", "NDv4", 1, "1 x A100 40 GB"),
    ("D2_v3", "Dv3", 0, "2 cores"),
)
# name, what it has
SINGULARITY_IMAGES = {
    "base-ubuntu22.04": "Ubuntu 22.04, Python 3.10",
    "pytorch": "PyTorch 2.2, CUDA 12.1",
    "acpt-2.2.1-py3.10-cuda12.1": "ACPT: PyTorch 2.2.1, Python 3.10, CUDA 12.1",
}
_TIERS = ("Premium", "Standard", "Basic")
_LIMITS = {series: dict.fromkeys(_TIERS, gpus) for series, gpus in (("NDv2", 16), ("NDv4", 8), ("Dv3", 4))}


class WorkspaceSpec(NamedTuple):
    """Where a workspace is, and the account it keeps its artifacts in (the first one when empty). All that is
    in one subscription is in one tenant.
    """

    subscription: str = SUBSCRIPTION
    group: str = GROUP
    name: str = WORKSPACE
    location: str = "eastus"
    account: str = ""
    tenant: str = TENANT


def group_id(subscription: str, group: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def workspace_id(subscription: str, group: str, name: str) -> str:
    return f"{group_id(subscription, group)}/providers/{PROVIDER}/workspaces/{name}"


def add_default_resources(documents: Documents, storage: Storage, now: float) -> None:
    """The default world; what is there already stays."""
    at = add_workspace(documents, storage, WorkspaceSpec(), now)
    for name, size, gpus in (("cpu-cluster", "STANDARD_D2_V3", 0), ("gpu-cluster", "STANDARD_NC24RS_V3", 4)):
        if documents.get("compute", f"{at}/computes/{name}") is None:
            add_compute(documents, at, {"name": name, "nodes": 4, "vm_size": size, "gpus": gpus})
    if documents.get("compute", f"{at}/computes/itp-cluster") is None:
        add_compute(documents, at, {"name": "itp-cluster", "kind": "Kubernetes", "nodes": 4})
    if not documents.all("virtualcluster"):
        add_virtual_cluster(documents, {})


def add_workspace(documents: Documents, storage: Storage, spec: WorkspaceSpec, now: float) -> str:
    """The workspace's ARM id; made with its default datastores unless it is there."""
    at = workspace_id(spec.subscription, spec.group, spec.name)
    if documents.get("workspace", at):
        return at
    account = spec.account or next(iter(storage.accounts))
    guid = str(uuid.uuid5(uuid.NAMESPACE_URL, at))
    documents.put("workspace", at, _workspace(at, spec, account, guid, now))
    stores = {"workspaceblobstore": f"azureml-blobstore-{guid}", "workspaceartifactstore": "azureml"}
    for name, container in stores.items():
        storage.own(account, container).create()
        documents.put(
            "datastore", f"{at}/datastores/{name}", _datastore(at, name, account, container, storage)
        )
    return at


def _workspace(at: str, spec: WorkspaceSpec, account: str, guid: str, now: float) -> Json:
    place = f"{group_id(spec.subscription, spec.group)}/providers"
    properties = {
        "friendlyName": spec.name,
        "workspaceId": guid,
        "provisioningState": "Succeeded",
        "storageAccount": f"{place}/Microsoft.Storage/storageAccounts/{account}",
        "containerRegistry": f"{place}/Microsoft.ContainerRegistry/registries/simregistry",
        "keyVault": f"{place}/Microsoft.KeyVault/vaults/sim-vault",
        "tenantId": spec.tenant,
        "publicNetworkAccess": "Enabled",
    }
    identity = {"type": "SystemAssigned", "principalId": guid, "tenantId": spec.tenant}
    kept = {"id": at, "name": spec.name, "type": f"{PROVIDER}/workspaces", "location": spec.location}
    who = {"createdAt": stamp(now), "createdBy": "Dummy User", "createdByType": "User"}
    rest = {"identity": identity, "kind": "Default", "tags": {}, "systemData": who}
    return {**kept, "properties": properties, **rest}


def _datastore(at: str, name: str, account: str, container: str, storage: Storage) -> Json:
    secrets = {"secretsType": "AccountKey", "key": storage.accounts[account]}
    properties = {
        "datastoreType": "AzureBlob",
        "accountName": account,
        "containerName": container,
        "endpoint": "core.windows.net",
        "protocol": "https",
        "isDefault": name == "workspaceblobstore",
        "serviceDataAccessAuthIdentity": "None",
        "credentials": {"credentialsType": "AccountKey", "secrets": secrets},
        "tags": {},
        "properties": {},
    }
    path = f"{at}/datastores/{name}"
    return {"id": path, "name": name, "type": f"{PROVIDER}/workspaces/datastores", "properties": properties}


def add_compute(documents: Documents, workspace: str, wanted: Json) -> Json:
    """`wanted`: name, kind (AmlCompute or Kubernetes), nodes, gpus of a node, vm_size, priority, location."""
    name, kind, nodes = wanted["name"], wanted.get("kind", "AmlCompute"), int(wanted.get("nodes", 4))
    path, location = f"{workspace}/computes/{name}", wanted.get("location", "eastus")
    properties = {
        "computeType": kind,
        "computeLocation": location,
        "description": None,
        "provisioningState": "Succeeded",
        "createdOn": stamp(0),
        "isAttachedCompute": kind != "AmlCompute",
        "resourceId": wanted.get("resource_id"),
        "properties": _machines(wanted, nodes) if kind == "AmlCompute" else _kubernetes(wanted),
    }
    made = {"id": path, "name": name, "type": f"{PROVIDER}/workspaces/computes", "location": location}
    made |= {"properties": properties, "sim": {"nodes": nodes, "gpus": int(wanted.get("gpus", 0))}}
    documents.put("compute", path, made)
    return made


def _machines(wanted: Json, nodes: int) -> Json:
    scale = {"minNodeCount": 0, "maxNodeCount": nodes, "nodeIdleTimeBeforeScaleDown": "PT120S"}
    return {
        "vmSize": wanted.get("vm_size", "STANDARD_D2_V3"),
        "vmPriority": wanted.get("priority", "Dedicated"),
        "osType": "Linux",
        "scaleSettings": scale,
        "remoteLoginPortPublicAccess": "Enabled",
        "allocationState": "Steady",
        "enableNodePublicIp": True,
    }


def _kubernetes(wanted: Json) -> Json:
    types = wanted.get("instance_types") or {
        # The service's own default type has no GPU.
        "defaultinstancetype": {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}},
        **{
            f"gpu{count}": {"resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": count}}}
            for count in (1, 4, 8)
        },
    }
    rest = dict.fromkeys(("relayConnectionString", "extensionPrincipalId", "vcName"))
    return {"namespace": "default", "defaultInstanceType": next(iter(types)), "instanceTypes": types, **rest}


def add_virtual_cluster(documents: Documents, wanted: Json) -> Json:
    """`wanted`: subscription, group, name, locations, `limits` {series: {tier: GPUs}} of each location."""
    subscription, group = wanted.get("subscription", SUBSCRIPTION), wanted.get("group", GROUP)
    name = wanted.get("name", "sim-vc")
    locations = wanted.get("locations", ["eastus", "southcentralus"])
    limits = wanted.get("limits") or _LIMITS
    path = f"{group_id(subscription, group)}/providers/{PROVIDER}/virtualClusters/{name}"
    rows = [
        {"id": series, "name": series, "slaTier": tier, "limit": tiers.get(tier, 0), "used": 0}
        for series, tiers in limits.items()
        for tier in _TIERS
    ]
    overall = [
        {"id": series, "name": series, "limit": sum(tiers.values()) * len(locations), "used": 0}
        for series, tiers in limits.items()
    ]
    quotas = {location: {"limits": [dict(row) for row in rows]} for location in locations}
    managed = {
        "locations": locations,
        "quotas": quotas,
        "defaultGroupPolicyOverallQuotas": {"limits": overall},
    }
    made = {"id": path, "name": name, "type": f"{PROVIDER}/virtualClusters", "location": locations[0]}
    made["properties"] = {"provisioningState": "Succeeded", "managed": managed}
    documents.put("virtualcluster", path, made)
    return made
