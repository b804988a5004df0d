"""The folder of a Kubernetes cluster: what is decided before it starts, and the certificates in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from authority import Authority, Pair, encoded

from clusters.checks import checked_folder
from clusters.k8s.audit import write_policy
from clusters.network import free_network

RECORD = "cluster.json"
API_PORT = 6443
# Members of this group may do everything.
ADMINS = "system:masters"
_PROGRAMS = (
    "nsenter",
    "unshare",
    "setpriv",
    "ip",
    "curl",
    "pkill",
    "containerd",
    "runc",
    "iptables",
    "conntrack",
    "mmdebstrap",
)


@dataclass(frozen=True)
class Site:
    """`network` has the first two numbers of all addresses: of nodes and, in ranges of their own, of pods."""

    folder: Path
    network: str

    @property
    def control_address(self) -> str:
        return f"{self.network}.0.2"

    @property
    def caller_address(self) -> str:
        """This machine, as pods and nodes see it."""
        return f"{self.network}.0.1"

    @property
    def services(self) -> str:
        return f"{self.network}.255.0/24"

    @property
    def server(self) -> str:
        return f"https://{self.control_address}:{API_PORT}"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of a user with all rights."""
        return self.folder / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit.json"

    @property
    def audit_log(self) -> Path:
        """A line of JSON for each request that was answered."""
        return self.folder / "logs" / "requests.log"

    @property
    def authority(self) -> Path:
        return self.certificates / "authority.crt"


def read_site(folder: Path) -> Site | None:
    """The site that was written into `folder`; None when there is none."""
    record = folder / RECORD
    if not record.exists():
        return None
    known = json.loads(record.read_text())
    return Site(folder=Path(known["folder"]), network=known["network"])


def plan_site(folder: Path) -> Site:
    """Addresses that no other cluster of this machine has; ClusterError when `folder` is unfit."""
    down = "make k8s-down"
    folder = checked_folder(folder, what="a Kubernetes cluster", programs=_PROGRAMS, down=down)
    return Site(folder, free_network())


def write_site(site: Site) -> None:
    """The record that `down` reads, then the certificates of the control plane."""
    for name in ("logs", "etcd", "certificates", "nodes"):
        (site.folder / name).mkdir(parents=True, mode=0o700)
    (site.folder / RECORD).write_text(json.dumps({**asdict(site), "folder": str(site.folder)}, indent=1))
    write_policy(site.audit_policy)
    authority = Authority()
    site.authority.write_text(authority.pem)
    (site.certificates / "authority.key").write_text(authority.key)
    service = f"{site.network}.255.1"
    _write(
        site,
        "api",
        authority.pair(
            "kube-apiserver",
            site.control_address,
            "127.0.0.1",
            service,
            "kubernetes",
            "kubernetes.default.svc",
        ),
    )
    _write(site, "service-accounts", authority.pair("service-accounts"))
    _write(site, "front-proxy", authority.pair("front-proxy-client"))
    _write(site, "kubelet-client", authority.pair("kube-apiserver-kubelet-client", groups=[ADMINS]))
    for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
        write_kubeconfig(site, site.certificates / f"{name}.conf", authority.pair(f"system:{name}"))
    write_kubeconfig(site, site.kubeconfig, authority.pair("admin", groups=[ADMINS]))


def issue(site: Site, user: str, *groups: str, names: Sequence[str] = ()) -> Pair:
    """A certificate of this user, which the API server accepts; with `names`, of a server too."""
    key = (site.certificates / "authority.key").read_text()
    return Authority(key).pair(user, *names, groups=groups)


def write_node_certificates(site: Site, name: str, address: str) -> None:
    """A node is a client of the API server, and a server for it."""
    pair = issue(site, f"system:node:{name}", "system:nodes", names=[name, address])
    _write(site, name, pair)
    write_kubeconfig(site, site.certificates / f"{name}.conf", pair)


def write_kubeconfig(site: Site, path: Path, pair: Pair) -> Path:
    """A kubeconfig of the user that the certificate names."""
    certificate, key = pair.data
    cluster = {"server": site.server, "certificate-authority-data": encoded(site.authority.read_text())}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "user", "user": {"client-certificate-data": certificate, "client-key-data": key}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "user"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))  # JSON is YAML too
    return path


def _write(site: Site, name: str, pair: Pair) -> None:
    for suffix, text in (("crt", pair.certificate), ("key", pair.key)):
        (site.certificates / f"{name}.{suffix}").write_text(text)
