"""The simulated Azure Kubernetes Service, by the official client, unchanged, and by plain requests."""

from __future__ import annotations

import base64
import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.containerservice import ContainerServiceClient
from azure.mgmt.containerservice.models import (
    AgentPool,
    ManagedCluster,
    ManagedClusterAgentPoolProfile,
    ManagedClusterIdentity,
    ManagedClusterProperties,
)
from home import until
from services.aks_sdk import compute, containers, resources, unknown_fields
from services.azure import Azure, azure_sim

from simulators.azure.resources import SUBSCRIPTION

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-aks")]
GROUP = "aks-group"
VERSION = "api-version=2026-08-01"


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    with azure_sim(tmp_path_factory.mktemp("azure")) as running:
        quick(running)
        resources(running).resource_groups.create_or_update(GROUP, {"location": "eastus"})
        yield running


@pytest.fixture(autouse=True)
def no_fault_left(azure: Azure) -> Iterator[None]:
    yield
    azure.admin("DELETE", "/faults")


def quick(azure: Azure, **seconds: float) -> None:
    kinds = ("create", "update", "delete")
    usual = {f"{kind}-{what}": 0.1 for kind in kinds for what in ("cluster", "pool")}
    azure.admin("POST", "/aks", {"seconds": {**usual, **seconds}, "retry_after": "0"})


def cluster(*pools: tuple[str, int], **more: Any) -> ManagedCluster:
    system = ManagedClusterAgentPoolProfile(name="sys", mode="System", count=1, vm_size="Standard_D2s_v5")
    profiles = [
        ManagedClusterAgentPoolProfile(name=name, mode="User", count=count, vm_size="Standard_NC4as_T4_v3")
        for name, count in pools
    ]
    return ManagedCluster(
        location="eastus",
        identity=ManagedClusterIdentity(type="SystemAssigned"),
        properties=ManagedClusterProperties(
            dns_prefix="pet", agent_pool_profiles=[system, *profiles], **more
        ),
        tags={"mine": "yes"},
    )


@pytest.fixture
def sdk(azure: Azure) -> ContainerServiceClient:
    return containers(azure)


def made(sdk: ContainerServiceClient, name: str, *pools: tuple[str, int], **more: Any) -> ManagedCluster:
    found = sdk.managed_clusters.begin_create_or_update(
        GROUP, name, cluster(*pools, **more), polling_interval=0
    )
    return found.result(60)


def path(name: str, more: str = "") -> str:
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
    return f"{group}/providers/Microsoft.ContainerService/managedClusters/{name}{more}?{VERSION}"


def test_the_official_client_makes_shows_and_removes_a_cluster(
    azure: Azure, sdk: ContainerServiceClient
) -> None:
    found = made(sdk, "whole", ("gpu", 2))
    assert found.properties is not None
    assert found.properties.provisioning_state == "Succeeded"
    pools = found.properties.agent_pool_profiles or []
    assert [(one.name, one.count, one.provisioning_state) for one in pools] == [
        ("sys", 1, "Succeeded"),
        ("gpu", 2, "Succeeded"),
    ]
    assert list(unknown_fields(found)) == []
    assert list(unknown_fields(sdk.agent_pools.get(GROUP, "whole", "gpu"))) == []
    assert [one.name for one in sdk.managed_clusters.list_by_resource_group(GROUP)] == ["whole"]
    listed = resources(azure).resources.list_by_resource_group(GROUP)
    assert [one.type for one in listed] == ["Microsoft.ContainerService/managedClusters"]
    sdk.managed_clusters.begin_delete(GROUP, "whole", polling_interval=0).result(60)
    with pytest.raises(ResourceNotFoundError):
        sdk.managed_clusters.get(GROUP, "whole")
    assert azure.ask("DELETE", path("whole"))[0] == 204


def test_credentials_are_those_of_a_user_or_of_an_administrator(
    azure: Azure, sdk: ContainerServiceClient
) -> None:
    made(sdk, "secret", aad_profile={"managed": True})
    admin = sdk.managed_clusters.list_cluster_admin_credentials(GROUP, "secret")
    user = sdk.managed_clusters.list_cluster_user_credentials(GROUP, "secret", format="exec")
    assert user.kubeconfigs and admin.kubeconfigs and user.kubeconfigs[0].value
    assert [one.name for one in [*user.kubeconfigs, *admin.kubeconfigs]] == ["clusterUser", "clusterAdmin"]
    shown = json.loads(bytes(user.kubeconfigs[0].value))
    assert shown["users"][0]["user"]["exec"]["command"] == "kubelogin"


def test_the_kubeconfig_can_be_that_of_a_real_cluster(azure: Azure, tmp_path: Path) -> None:
    made(containers(azure), "real")
    (tmp_path / "kubeconfig").write_text("real: true")
    azure.admin("POST", "/aks", {"kubeconfig": str(tmp_path / "kubeconfig")})
    try:
        _, answer = azure.ask("POST", path("real", "/listClusterUserCredential"))
    finally:
        azure.admin("POST", "/aks", {"kubeconfig": ""})
    assert base64.b64decode(answer["kubeconfigs"][0]["value"]) == b"real: true"


def test_a_pool_is_scaled_by_its_etag(azure: Azure, sdk: ContainerServiceClient) -> None:
    made(sdk, "scaled", ("gpu", 1))
    pool = sdk.agent_pools.get(GROUP, "scaled", "gpu")
    assert pool.properties is not None
    before = pool.properties.e_tag
    pool.properties.count = 3
    words: dict[str, Any] = {"match_condition": MatchConditions.IfNotModified, "polling_interval": 0}
    sdk.agent_pools.begin_create_or_update(GROUP, "scaled", "gpu", pool, etag=before, **words).result(60)
    _, shown = azure.ask("GET", path("scaled", "/agentPools/gpu"))
    assert (shown["properties"]["count"], shown["properties"]["provisioningState"]) == (3, "Succeeded")
    with pytest.raises(HttpResponseError) as met:
        sdk.agent_pools.begin_create_or_update(GROUP, "scaled", "gpu", pool, etag=before, **words)
    assert met.value.status_code == 412
    with pytest.raises(HttpResponseError) as met:
        fresh = AgentPool({"properties": {"count": 1, "vmSize": "Standard_NC4as_T4_v3"}})
        absent: dict[str, Any] = {"match_condition": MatchConditions.IfMissing, "polling_interval": 0}
        sdk.agent_pools.begin_create_or_update(GROUP, "scaled", "gpu", fresh, **absent)
    assert met.value.status_code == 412


def test_a_change_while_another_is_in_progress_is_refused(azure: Azure, sdk: ContainerServiceClient) -> None:
    quick(azure, **{"create-cluster": 2.0})
    begun = sdk.managed_clusters.begin_create_or_update(GROUP, "busy", cluster(), polling_interval=0)
    assert azure.ask("GET", path("busy"))[1]["properties"]["provisioningState"] == "Creating"
    status, answer = azure.ask("PUT", path("busy"), cluster().as_dict())
    assert (status, answer["error"]["code"]) == (409, "OperationNotAllowed")
    assert azure.ask("DELETE", path("busy"))[0] == 409
    begun.result(60)
    assert azure.ask("GET", path("busy"))[1]["properties"]["provisioningState"] == "Succeeded"
    quick(azure)


@pytest.mark.parametrize(
    ("size", "count", "code"),
    [
        ("Standard_NC24ads_A100_v4", 1, "ErrCode_InsufficientVCPUQuota"),
        ("Standard_NC4as_T4_v3", 9, "ErrCode_InsufficientVCPUQuota"),
        ("Standard_NC6s_v3", 1, "BadRequest"),
    ],
)
def test_more_than_the_quota_is_refused(
    azure: Azure, sdk: ContainerServiceClient, size: str, count: int, code: str
) -> None:
    wanted = cluster()
    profile = ManagedClusterAgentPoolProfile(name="gpu", mode="User", count=count, vm_size=size)
    assert wanted.properties is not None and wanted.properties.agent_pool_profiles is not None
    wanted.properties.agent_pool_profiles.append(profile)
    status, answer = azure.ask("PUT", path(f"much{count}"), wanted.as_dict())
    assert (status, answer["error"]["code"]) == (400, code)
    assert azure.ask("GET", path(f"much{count}"))[0] == 404


def test_quotas_and_sizes_are_listed_and_count_what_is_used(
    azure: Azure, sdk: ContainerServiceClient
) -> None:
    client = compute(azure)

    def used() -> int | None:
        rows = {row.name.value: row for row in client.usage.list("eastus") if row.name}
        return rows["Standard NCASv3_T4 Family"].current_value

    before = used()
    made(sdk, "counted", ("gpu", 2))
    assert before is not None and used() == before + 8
    sizes = [one for one in client.resource_skus.list(filter="location eq 'westeurope'") if one.name]
    assert "Standard_NC6s_v3" not in {one.name for one in sizes}
    held = next(one for one in sizes if one.name == "Standard_ND96asr_v4")
    assert held.restrictions and held.restrictions[0].reason_code == "NotAvailableForSubscription"
    azure.admin("POST", "/aks", {"limits": {"standardDSv5Family": 0}})
    status, _ = azure.ask("PUT", path("none"), cluster().as_dict())
    azure.admin("POST", "/aks", {"limits": {"standardDSv5Family": 20}})
    assert status == 400
    sdk.managed_clusters.begin_delete(GROUP, "counted", polling_interval=0).result(60)


def test_an_operation_fails_on_demand(azure: Azure, sdk: ContainerServiceClient) -> None:
    fail = {"kind": "create-cluster", "code": "ZonalAllocationFailed", "message": "There is no room."}
    azure.admin("POST", "/aks", {"fail": fail})
    with pytest.raises(HttpResponseError, match="ZonalAllocationFailed"):
        made(sdk, "failed")
    assert azure.ask("GET", path("failed"))[1]["properties"]["provisioningState"] == "Failed"
    found = made(sdk, "failed")
    assert found.properties and found.properties.provisioning_state == "Succeeded"


def test_a_dropped_answer_hides_that_the_cluster_is_being_made(azure: Azure) -> None:
    azure.fault("drop-after", "/managedClusters/dropped", method="PUT")
    with pytest.raises((OSError, http.client.HTTPException)):
        azure.ask("PUT", path("dropped"), cluster().as_dict())
    assert azure.ask("GET", path("dropped"))[0] == 200


def test_operations_go_on_after_the_simulator_was_killed(azure: Azure, sdk: ContainerServiceClient) -> None:
    quick(azure, **{"create-cluster": 6.0})
    azure.ask("PUT", path("survivor"), cluster(("gpu", 1)).as_dict())
    azure.kill()
    azure.start()

    def state() -> Any:
        return azure.ask("GET", path("survivor"))[1]["properties"]["provisioningState"]

    assert state() == "Creating"
    until(lambda: state() == "Succeeded", "the cluster is made")
    quick(azure)


def test_the_count_of_a_pool_for_work_is_made_real_by_a_program(
    azure: Azure, sdk: ContainerServiceClient, tmp_path: Path
) -> None:
    log = tmp_path / "hook.log"
    program = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + '\\n')"
    azure.admin("POST", "/aks", {"hook": [sys.executable, "-c", program, str(log)]})
    try:
        made(sdk, "hooked", ("gpu", 2))
        pool = sdk.agent_pools.get(GROUP, "hooked", "gpu")
        assert pool.properties is not None
        pool.properties.count = 3
        sdk.agent_pools.begin_create_or_update(GROUP, "hooked", "gpu", pool, polling_interval=0).result(60)
        azure.admin("POST", "/aks", {"count": {"cluster": "hooked", "pool": "gpu", "count": 1}})
        sdk.managed_clusters.begin_delete(GROUP, "hooked", polling_interval=0).result(60)
        assert log.read_text().splitlines() == [f"hooked gpu {count}" for count in (2, 3, 1, 0)]
        azure.admin("POST", "/aks", {"hook": ["false"]})
        with pytest.raises(HttpResponseError, match="HookFailed"):
            made(sdk, "unhooked", ("gpu", 1))
    finally:
        azure.admin("POST", "/aks", {"hook": []})


def test_a_group_is_removed_with_what_is_in_it(azure: Azure, sdk: ContainerServiceClient) -> None:
    groups = resources(azure).resource_groups
    assert groups.create_or_update("short", {"location": "eastus", "tags": {"a": "b"}}).tags == {"a": "b"}
    assert groups.check_existence("short") and not groups.check_existence("missing")
    sdk.managed_clusters.begin_create_or_update("short", "inside", cluster(), polling_interval=0).result(60)
    groups.begin_delete("short", polling_interval=0).result(60)
    until(lambda: not groups.check_existence("short"), "the group is removed")
    with pytest.raises(ResourceNotFoundError):
        sdk.managed_clusters.get("short", "inside")
    with pytest.raises(HttpResponseError, match="ResourceGroupNotFound"):
        sdk.managed_clusters.begin_create_or_update("missing", "x", cluster())
