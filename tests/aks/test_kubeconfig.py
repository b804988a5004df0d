"""The way to an AKS cluster by gofer's own Azure login, without kubelogin."""

from __future__ import annotations

import base64
import json
import stat
from typing import Any

import pytest
from aks.aks_home import AksHome
from services.aks_sdk import containers, resources

from gofer.backends.kubernetes import aks
from gofer.errors import UnknownName
from gofer.transport.azure.managed_cluster import ClusterName
from gofer.transport.kubernetes.credentials import KubeSigner
from gofer.transport.kubernetes.kubeconfig import KubeContext
from simulators.azure.resources import SUBSCRIPTION

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("aks")]


def made(home: AksHome, name: str, **properties: Any) -> ClusterName:
    resources(home.azure).resource_groups.create_or_update(home.group, {"location": "eastus"})
    pool = {"name": "sys", "mode": "System", "count": 1, "vmSize": "Standard_D2s_v5"}
    body = {
        "location": "eastus",
        "identity": {"type": "SystemAssigned"},
        "properties": {"dnsPrefix": name, "agentPoolProfiles": [pool], **properties},
    }
    made = containers(home.azure).managed_clusters.begin_create_or_update(
        home.group, name, body, polling_interval=0
    )  # type: ignore[call-overload]
    made.result(60)
    return ClusterName(SUBSCRIPTION, home.group, name)


def context_of(home: AksHome, cluster: ClusterName) -> KubeContext:
    return aks.kubeconfig_of(cluster, home.environ, str(home.path))


def claims(context: KubeContext) -> Any:
    assert context.user.fetch_token is not None
    body = context.user.fetch_token(False).split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


@pytest.fixture(autouse=True)
def trusting(home: AksHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(home.azure.ca))


def test_a_cluster_with_azure_ad_gets_a_token_of_gofers_login(home: AksHome) -> None:
    context = context_of(home, made(home, "byaad", aadProfile={"managed": True}))
    assert context.cluster.server == f"{home.azure.base}/kubernetes/byaad"
    assert context.user.plugin is None
    assert claims(context)["aud"] == "6dae42f8-4368-4678-94ff-3960e28e3630"


def test_a_refused_token_is_fetched_again(home: AksHome) -> None:
    context = context_of(home, made(home, "again", aadProfile={"managed": True}))
    signer = KubeSigner(context)
    first = signer._authorization()
    assert signer._authorization() == first
    assert signer.renew()
    assert signer._authorization() not in ("", first)


def test_a_cluster_with_accounts_of_its_own_keeps_its_credential(home: AksHome) -> None:
    context = context_of(home, made(home, "local"))
    assert (context.user.token, context.user.fetch_token) == ("dummy-token", None)


def test_the_kubeconfig_is_kept_private_and_fetched_once(home: AksHome) -> None:
    cluster = made(home, "kept")
    context_of(home, cluster)
    home.listen()
    context_of(home, cluster)
    assert home.requests("POST", "listClusterUserCredential") == []
    path = aks.kept_file(cluster, str(home.path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    aks.forget_kubeconfig(cluster, str(home.path))
    assert not path.exists()


def test_a_cluster_that_is_missing_is_named(home: AksHome) -> None:
    resources(home.azure).resource_groups.create_or_update(home.group, {"location": "eastus"})
    with pytest.raises(UnknownName, match="no AKS cluster `gone`") as met:
        context_of(home, ClusterName(SUBSCRIPTION, home.group, "gone"))
    assert met.value.hint is not None and "gofer cluster create gone" in met.value.hint
