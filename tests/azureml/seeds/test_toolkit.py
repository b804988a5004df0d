"""Jobs of the VS Code toolkit on the simulator: where their code comes from, what stays in their work dir."""

from __future__ import annotations

import json

import pytest
from azureml.seeds.layout import OlderToolHome

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE

pytestmark = [pytest.mark.xdist_group("azure-seeds"), pytest.mark.timeout(900)]

TRAIN = """\
import os
print(open("which").read(), "in", sorted(os.listdir()))
os.makedirs("ckpt", exist_ok=True)
open("ckpt/model", "w").write(open("which").read())
"""


def prepare(home: OlderToolHome, *, sync_code: bool) -> None:
    """A job of the toolkit's first format in `job.json`, imported; its code is in the container."""
    account, container = home.accounts[0], home.containers[0]
    client = home.azure.blob_client(account.name).get_container_client(container)
    for name, text in {"train.py": TRAIN, "which": "container", "out/log": "an older log"}.items():
        client.upload_blob(f"me/work/{name}", text.encode())
    home.write("train.py", TRAIN)
    home.write("which", "laptop")
    workspace = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/X.Y/workspaces/{WORKSPACE}"
    job = {
        "cluster": {
            "workspace": workspace,
            "virtual_cluster": "sim-vc",
            "instance_type": "ND40_v2g1",
            "sla_tier": "Basic",
            "node_count": 1,
        },
        "storage": {
            "datastore_name": "mine",
            "account_name": account.name,
            "account_key": account.key,
            "container_name": container,
            "endpoint": account.endpoint,
        },
        "environment": {"docker_image": "me/env:1", "setup_script": ["cp which seen-by-setup"]},
        "experiment": {
            "name": "exp",
            "job_name": "first",
            "workdir": "me/work",
            "sync_code": sync_code,
            "ignore_dir": "out",
            "script": ["python train.py"],
        },
    }
    home.write("job.json", json.dumps(job))
    home.gofer("config", "import", "job.json")
    home.keep("mine-key", account.key)


@pytest.mark.parametrize(("sync_code", "place"), [(True, "laptop"), (False, "container")])
def test_a_job_has_its_code_and_leaves_files_in_its_work_dir(
    older_home: OlderToolHome, sync_code: bool, place: str
) -> None:
    prepare(older_home, sync_code=sync_code)
    run = older_home.ended(older_home.gofer("submit", "--job", "jobs/first.yaml").out)
    assert run["state"] == "succeeded", run
    assert f"{place} in " in run["log"]
    assert "'out'" not in run["log"]
    found = older_home.blobs()
    client = older_home.azure.blob_client(older_home.accounts[0].name).get_container_client(
        older_home.containers[0]
    )
    assert client.download_blob("me/work/ckpt/model").readall() == place.encode()
    # What lay there stays: the code of the run is its own.
    assert client.download_blob("me/work/which").readall() == b"container"
    assert {"me/work/train.py", "me/work/out/log"} < found.keys()
    assert "me/work/seen-by-setup" not in found
