"""The commands that run the control plane: etcd, the API server, the controller manager, the scheduler.

All of it runs on one machine of the cluster's own network, so its ports are always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clusters.errors import ClusterError
from clusters.k8s.site import API_PORT, Site

_ETCD = "http://127.0.0.1:2379"
_ETCD_PEER = "http://127.0.0.1:2380"
# Kubernetes misses a dead node after 40 s and gives up its pods after 300 s more: long for a test.
_DEAD_NODE_S = 16
_GIVE_UP_PODS_S = 10


def etcd(site: Site) -> list[str]:
    return [
        "etcd",
        "--name=one",
        f"--data-dir={site.folder / 'etcd'}",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=one={_ETCD_PEER}",
        "--log-level=warn",
        "--unsafe-no-fsync",
    ]


def api_server(site: Site) -> list[str]:
    folder = site.certificates
    return [
        "kube-apiserver",
        f"--etcd-servers={_ETCD}",
        f"--bind-address={site.control_address}",
        f"--advertise-address={site.control_address}",
        f"--secure-port={API_PORT}",
        f"--cert-dir={site.folder / 'api'}",
        f"--tls-cert-file={folder}/api.crt",
        f"--tls-private-key-file={folder}/api.key",
        f"--client-ca-file={site.authority}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={site.services}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={folder}/service-accounts.crt",
        f"--service-account-signing-key-file={folder}/service-accounts.key",
        f"--kubelet-client-certificate={folder}/kubelet-client.crt",
        f"--kubelet-client-key={folder}/kubelet-client.key",
        f"--kubelet-certificate-authority={site.authority}",
        # The names of nodes are in no DNS.
        "--kubelet-preferred-address-types=InternalIP",
        f"--proxy-client-cert-file={folder}/front-proxy.crt",
        f"--proxy-client-key-file={folder}/front-proxy.key",
        f"--requestheader-client-ca-file={site.authority}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--enable-aggregator-routing=true",
        f"--audit-policy-file={site.audit_policy}",
        f"--audit-log-path={site.audit_log}",
        f"--default-not-ready-toleration-seconds={_GIVE_UP_PODS_S}",
        f"--default-unreachable-toleration-seconds={_GIVE_UP_PODS_S}",
        "--profiling=false",
    ]


def controller_manager(site: Site) -> list[str]:
    folder = site.certificates
    return [
        "kube-controller-manager",
        f"--kubeconfig={folder}/kube-controller-manager.conf",
        "--bind-address=127.0.0.1",
        f"--cert-dir={site.folder / 'controller-manager'}",
        "--authentication-skip-lookup",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        # With its default of 20 requests a second, the default service account appears after seconds.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        f"--root-ca-file={site.authority}",
        f"--service-account-private-key-file={folder}/service-accounts.key",
        f"--cluster-signing-cert-file={site.authority}",
        f"--cluster-signing-key-file={folder}/authority.key",
        "--node-monitor-period=2s",
        f"--node-monitor-grace-period={_DEAD_NODE_S}s",
        "--profiling=false",
    ]


def scheduler(site: Site) -> list[str]:
    return [
        "kube-scheduler",
        f"--kubeconfig={site.certificates}/kube-scheduler.conf",
        "--bind-address=127.0.0.1",
        f"--cert-dir={site.folder / 'scheduler'}",
        "--authentication-skip-lookup",
        "--leader-elect=false",
        "--profiling=false",
    ]


# In the order of their start.
PARTS: Mapping[str, Callable[[Site], list[str]]] = {
    "etcd": etcd,
    "kube-apiserver": api_server,
    "kube-controller-manager": controller_manager,
    "kube-scheduler": scheduler,
}
# Where those parts say on 127.0.0.1 that they work which the API server cannot be asked about.
HEALTH: Mapping[str, str] = {
    "kube-controller-manager": "https://127.0.0.1:10257/healthz",
    "kube-scheduler": "https://127.0.0.1:10259/readyz",
}


def checked_part(name: str) -> str:
    """The name of a part; ClusterError for any other."""
    if name not in PARTS:
        raise ClusterError(f"there is no part {name!r}: the parts are {', '.join(PARTS)}")
    return name
