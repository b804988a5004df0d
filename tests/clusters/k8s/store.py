"""The store of the cluster: Azurite, the emulator of Azure Blob Storage, on the machine of the control plane.

Pods, nodes and the caller reach it at the same address. The key opens nothing but this emulator.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobServiceClient

from clusters.cells import Daemon
from clusters.errors import ClusterError

if TYPE_CHECKING:
    from clusters.k8s.cluster import Kubernetes

ACCOUNT = "labstore"
KEY = base64.b64encode(ACCOUNT.encode() * 8).decode()
_PORT = 10000
# The newest version of the service that Azurite 3.35 knows.
API_VERSION = "2025-11-05"
_AZURITE = Path(__file__).resolve().parents[3] / ".test-services/node_modules/azurite/dist/src/blob/main.js"
# The name of the program, for faults.
PROGRAM = "node"


def endpoint(k8s: Kubernetes) -> str:
    """The address of the account."""
    return f"http://{k8s.site.control_address}:{_PORT}/{ACCOUNT}"


def start_store(k8s: Kubernetes) -> Daemon:
    """Start the store with the blobs that it has; ClusterError when Azurite is not installed."""
    if not _AZURITE.exists():
        raise ClusterError(f"{_AZURITE} is missing: `bash scripts/test-services.sh` installs Azurite")
    argv = [PROGRAM, str(_AZURITE), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    argv += ["--blobHost", k8s.site.control_address, "--blobPort", str(_PORT)]
    argv += ["-l", str(k8s.folder / "store")]
    env = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    return k8s.control.start(argv, log=k8s.folder / "logs" / "store.log", env=env, can_stop=True)


def store_answers(k8s: Kubernetes) -> bool:
    """Whether the store takes requests: it refuses one without a signature."""
    try:
        k8s.control.call("curl", "--silent", "--max-time", "5", f"{endpoint(k8s)}?comp=list")
    except ClusterError:
        return False
    return True


def create_container(k8s: Kubernetes, name: str) -> None:
    """Create a container in the store; nothing happens when it exists."""
    client = BlobServiceClient(
        endpoint(k8s), credential=AzureNamedKeyCredential(ACCOUNT, KEY), api_version=API_VERSION
    )
    with suppress(ResourceExistsError):
        client.create_container(name)
