"""gofer sends what the official SDK sends for the same cluster, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aks.aks_home import AksHome
from azure.core import MatchConditions
from azure.mgmt.containerservice import models
from azure.mgmt.containerservice.models import ManagedCluster
from services.aks_sdk import containers, resources, unknown_fields

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("aks")]
_POOLS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "plain": ([], {"count": 1}),
    "several": (["--nodes", "3"], {"count": 3}),
    "automatic": (
        ["--nodes", "0:4"],
        {"count": 0, "enable_auto_scaling": True, "min_count": 0, "max_count": 4},
    ),
    "spot": (
        ["--spot", "--taint", "sku=gpu:NoSchedule"],
        {
            "count": 1,
            "scale_set_priority": "Spot",
            "scale_set_eviction_policy": "Delete",
            "spot_max_price": -1.0,
            "node_taints": ["sku=gpu:NoSchedule"],
        },
    ),
}


def official(pool: dict[str, Any]) -> ManagedCluster:
    """The same cluster in the words of the SDK."""

    shared: dict[str, Any] = {"os_type": "Linux", "type": "VirtualMachineScaleSets"}
    system = models.ManagedClusterAgentPoolProfile(
        name="sys", count=1, vm_size="Standard_D2s_v5", mode="System", **shared
    )
    work = models.ManagedClusterAgentPoolProfile(
        name="gpu",
        vm_size="Standard_NC4as_T4_v3",
        mode="User",
        scale_down_mode="Delete",
        tags={"gofer-made": "project"},
        gpu_profile=models.GPUProfile(driver="Install"),
        **shared,
        **pool,
    )
    return ManagedCluster(
        location="eastus",
        tags={"gofer-made": "project"},
        sku=models.ManagedClusterSKU(name="Base", tier="Free"),
        identity=models.ManagedClusterIdentity(type="SystemAssigned"),
        properties=models.ManagedClusterProperties(
            dns_prefix="pet",
            enable_rbac=True,
            agent_pool_profiles=[system, work],
            network_profile=models.ContainerServiceNetworkProfile(
                network_plugin="azure", network_plugin_mode="overlay"
            ),
            oidc_issuer_profile=models.ManagedClusterOIDCIssuerProfile(enabled=True),
            security_profile=models.ManagedClusterSecurityProfile(
                workload_identity=models.ManagedClusterSecurityProfileWorkloadIdentity(enabled=True)
            ),
            storage_profile=models.ManagedClusterStorageProfile(
                blob_csi_driver=models.ManagedClusterStorageProfileBlobCSIDriver(enabled=True)
            ),
        ),
    )


def sent(home: AksHome, part: str) -> Any:
    """The last request with a body below this path, without its position in the log."""
    one = home.requests("PUT", part)[-1]
    headers = [name for name in one["headers"] if name.startswith("if-")]
    return {"body": json.loads(one["body"]), "query": one["query"], "conditions": headers}


@pytest.mark.parametrize("shape", _POOLS)
def test_the_cluster_is_the_official_one(home: AksHome, shape: str) -> None:
    options, pool = _POOLS[shape]
    home.listen()
    home.create("pet", *options)
    ours = sent(home, "/managedClusters/pet")
    sdk = containers(home.azure).managed_clusters
    sdk.begin_delete(home.group, "pet", polling_interval=0).result(60)
    resources(home.azure).resource_groups.create_or_update(home.group, {"location": "eastus"})
    home.listen()
    absent: dict[str, Any] = {"match_condition": MatchConditions.IfMissing, "polling_interval": 0}
    begun = sdk.begin_create_or_update(home.group, "pet", official(pool), **absent)
    assert ours == sent(home, "/managedClusters/pet")
    begun.result(60)
    assert list(unknown_fields(sdk.get(home.group, "pet"))) == []


def test_a_scaled_pool_is_the_official_one(home: AksHome) -> None:
    home.create("pet", "--nodes", "1:2", "--spot")
    sdk = containers(home.azure).agent_pools
    pool = sdk.get(home.group, "pet", "gpu")
    home.listen()
    home.gofer("cluster", "scale", "pet", "1:3")
    ours = sent(home, "/agentPools/gpu")
    assert pool.properties is not None
    pool.properties.max_count = 3
    home.listen()
    etag = home.arm("pet", "/agentPools/gpu")["properties"]["eTag"]
    same: dict[str, Any] = {"match_condition": MatchConditions.IfNotModified, "etag": etag}
    sdk.begin_create_or_update(home.group, "pet", "gpu", pool, polling_interval=0, **same).result(60)
    theirs = sent(home, "/agentPools/gpu")
    # The SDK returns the state of the machines, which the service ignores.
    assert {**ours, "body": ours["body"]["properties"]} == {**theirs, "body": theirs["body"]["properties"]}
