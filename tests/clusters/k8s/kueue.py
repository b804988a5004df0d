"""Kueue, which lets jobs wait for their share of a cluster: its program, its objects and its webhooks.

It runs beside the control plane and not in a pod, so its webhooks have an address in place of a service.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml
from authority import encoded

from clusters.cells import Setup, all_run, open_cell
from clusters.errors import ClusterError
from clusters.k8s.cache import cache_folder, make_once
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.go_module import GoModule

_SOURCES = Path(__file__).resolve().with_name("kueue")
_MODULE = "sigs.k8s.io/kueue"
_PORT = 19443
_HEALTH = "http://127.0.0.1:10281/readyz"
_NAMESPACE = "kueue-system"
# Webhooks about other kinds of objects would refuse those while Kueue does not answer.
_GROUPS = {"batch", "kueue.x-k8s.io"}


def kueue() -> Path:
    """The folder of Kueue and its objects. The first call on a machine takes some minutes."""
    return make_once(cache_folder() / f"kueue-{GoModule(_SOURCES).digest()}", _build)


def start_kueue(k8s: Kubernetes) -> None:
    """Start Kueue, which then manages the jobs with the label `kueue.x-k8s.io/queue-name`."""
    program = kueue()
    k8s.kubectl("apply", "--server-side", "-f", str(program / "crds"))
    k8s.kubectl("wait", "--for=condition=Established", "-f", str(program / "crds"), "--timeout=60s")
    k8s.kubectl("create", "namespace", _NAMESPACE)
    folder = k8s.folder / "kueue"
    _write(k8s, folder)
    # It reads certificates of its metrics under a fixed path in /etc.
    setup = Setup(hostname="kueue", binds={"/etc": folder / "etc"})
    cell = open_cell(k8s.folder, "kueue", setup, wire=k8s.switch, tied=k8s.tied)
    argv = [str(program / "kueue"), f"--config={folder / 'config.json'}"]
    argv += ["--feature-gates=VisibilityOnDemand=false"]
    # Without /etc/passwd, it does not know who runs it.
    env = {"USER": "root", "HOME": "/root", "POD_NAMESPACE": _NAMESPACE}
    env["KUBECONFIG"] = str(k8s.site.kubeconfig)
    daemon = cell.start(argv, log=k8s.folder / "logs" / "kueue.log", env=env)
    k8s.until(lambda: all_run([daemon]) and _answers(k8s), "Kueue")
    documents = [
        _webhooks(k8s, one) for one in yaml.safe_load_all((program / "webhooks.yaml").read_text()) if one
    ]
    k8s.kubectl(
        "create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    )


def _answers(k8s: Kubernetes) -> bool:
    try:
        k8s.control.call("curl", "--fail", "--silent", "--max-time", "5", _HEALTH)
    except ClusterError:
        return False
    return True


def _write(k8s: Kubernetes, folder: Path) -> None:
    """Its configuration, and certificates under the names that it looks for."""
    certificates = folder / "etc" / "kueue" / "metrics" / "certs"
    certificates.mkdir(parents=True)
    for name, source in (("tls.crt", "api.crt"), ("tls.key", "api.key"), ("ca.crt", "authority.crt")):
        shutil.copy(k8s.site.certificates / source, certificates / name)
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:10281"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": k8s.site.control_address, "port": _PORT, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        "clientConnection": {"qps": 300, "burst": 500},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def _webhooks(k8s: Kubernetes, document: dict[str, Any]) -> dict[str, Any]:
    """A webhook configuration of Kueue's own, with an address in place of its service."""
    kept = []
    for webhook in document["webhooks"]:
        if {group for rule in webhook["rules"] for group in rule["apiGroups"]} <= _GROUPS:
            path = webhook["clientConfig"]["service"]["path"]
            client = {
                "url": f"https://{k8s.site.control_address}:{_PORT}{path}",
                "caBundle": encoded(k8s.site.authority.read_text()),
            }
            kept.append({**webhook, "clientConfig": client})
    name = f"kueue-{document['metadata']['name']}"
    return {**document, "metadata": {"name": name}, "webhooks": kept}


def _build(folder: Path) -> None:
    folder.mkdir()
    module = GoModule(_SOURCES)
    module.build(f"{_MODULE}/cmd/kueue", folder / "kueue", "Kueue")
    components = module.source(_MODULE) / "config" / "components"
    shutil.copytree(components / "crd" / "bases", folder / "crds")
    shutil.copy(components / "webhook" / "manifests.yaml", folder / "webhooks.yaml")
