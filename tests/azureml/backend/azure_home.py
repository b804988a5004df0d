"""`AzureHome`: a `Home` with a login and four targets on the Azure simulator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from home import Home
from services.azure import Azure

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
_YAML = """
targets:
  aml: {{kind: azureml, {where}, compute: cpu-cluster, image: "ubuntu:22.04", store: blob}}
  gpu: {{kind: azureml, {where}, compute: gpu-cluster, gpus_per_node: 4, image: "ubuntu:22.04", store: blob}}
  itp: {{kind: azureml, platform: itp, {where}, compute: itp-cluster, instance_type: gpu4, gpus_per_node: 4,
         image: "ubuntu:22.04", store: blob}}
  vc: {{kind: azureml, platform: singularity, {where}, virtual_cluster: sim-vc, instance_type: ND40_v2g1,
        gpus_per_node: 1, image: "ubuntu:22.04", store: blob}}
{more}
stores:
  blob: {{url: az://{container}/me/gofer, account: {account}, endpoint: "{endpoint}",
          key: "${{env:DUMMY_KEY}}"}}
target: aml
"""
_HEAD = """
import json, os, sys, time
from pathlib import Path
from gofer.backends.base import JobFilter, RunRef
from gofer.core.states import State
from gofer.ops.session import Session
session = Session()
def say(value):
    print(json.dumps(value))
"""


class AzureHome(Home):
    """`container` is the container of the store; it is empty at first."""

    def __init__(self, root: Path, azure: Azure, *, more: str = "") -> None:
        super().__init__(root)
        self.azure = azure
        self.container = azure.container("runs")
        account = azure.account()
        self.environ |= {**azure.env(), "DUMMY_KEY": account.key, "HOME": str(root)}
        where = f'subscription_id: "{SUBSCRIPTION}", resource_group: sim-group, workspace: sim-ws'
        text = _YAML.format(
            where=where,
            container=self.container,
            account=account.name,
            endpoint=azure.blobs,
            more=more.format(where=where),
        )
        (self.folder / "gofer.yaml").write_text(text)

    def python(self, code: str) -> Any:
        """Code with a session at hand, in a process of its own; what it hands to `say`."""
        done = subprocess.run(
            [sys.executable, "-c", _HEAD + code],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def submit(self, *words: str) -> str:
        """The id of a new run."""
        found: str = json.loads(self.gofer("submit", "--json", *words).out)["id"]
        return found

    def blobs(self, prefix: str = "") -> list[str]:
        """Names in the store's container, as the official client sees them."""
        client = self.azure.blob_client().get_container_client(self.container)
        return sorted(client.list_blob_names(name_starts_with=f"me/gofer/{prefix}"))
