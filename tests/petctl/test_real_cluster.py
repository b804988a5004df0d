"""The document of petctl with a real cluster behind the simulated Azure: real nodes, pods and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aks.aks_home import AksHome
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.images import PYTHON
from clusters.k8s.store import ACCOUNT, API_VERSION, KEY, create_container, endpoint
from petctl.test_document import (
    CONFIGURE,
    DELETE,
    DOCKER,
    SCALE,
    SETUP,
    STORAGE,
    UPLOAD_CODE,
    UPLOAD_DATA,
    PetHome,
)

pytestmark = [*ON_K8S, pytest.mark.net, pytest.mark.slow, pytest.mark.timeout(900)]
# COUNT is the last word that the simulator adds.
_HOOK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from clusters.k8s.cluster import attach
attach(Path(sys.argv[2])).scale(max(1, int(sys.argv[-1])))
"""


@pytest.fixture
def pet(home: AksHome, k8s: Kubernetes) -> Iterator[PetHome]:
    """A person whose Azure hands out the real cluster, and whose account is the store of that cluster."""
    hook = [sys.executable, "-c", _HOOK, str(Path(__file__).parents[1]), str(k8s.folder)]
    home.turn(kubeconfig=str(k8s.site.kubeconfig), hook=hook)
    made = PetHome(home)
    made.environ["AZURE_STORAGE_SERVICE_ENDPOINT"] = endpoint(k8s)
    made.use_account(ACCOUNT, KEY)
    for container in ("code", "data"):
        create_container(k8s, container)
    made.gofer("init", "--petctl")
    (made.folder / "config" / "Dockerfile").write_text(f"FROM {PYTHON}\n")
    yield made
    home.turn(kubeconfig="", hook=[])
    k8s.scale(3)


def test_the_training_ends_with_its_checkpoints_in_the_account(pet: PetHome, k8s: Kubernetes) -> None:
    for line in (CONFIGURE, SETUP):
        pet.type(line)
    assert len(k8s.ready_nodes()) == 1
    for line in (STORAGE, DOCKER, UPLOAD_CODE, UPLOAD_DATA):
        pet.type(line)
    run = pet.type("python petctl.py run_job").out.strip()
    pet.type(SCALE)
    assert len(k8s.ready_nodes()) == 2
    pet.gofer("wait", run, "--timeout", "5m", status=None)
    shown = pet.type("python petctl.py check_status").out
    assert "succeeded" in shown, f"{shown}{pet.gofer('why', run).out}"
    assert "epoch 9 loss" in pet.type("python petctl.py get_logs").out
    client = BlobServiceClient(
        endpoint(k8s), credential=AzureNamedKeyCredential(ACCOUNT, KEY), api_version=API_VERSION
    )
    names = list(client.get_container_client("gofer-runs").list_blob_names())
    assert [name for name in names if name.endswith("checkpoint-0009.json")]
    pet.type(DELETE, "--yes", "azure-pytorch-elastic")
    assert pet.arm("azure-pytorch-elastic") is None
