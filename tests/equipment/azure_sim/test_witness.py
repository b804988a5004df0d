"""The official SDK of Azure ML, unchanged, works against the simulator as it does against the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from services.azure import Azure, azure_sim

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE

pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.xdist_group("azure-witness"),
    pytest.mark.timeout(900),
]
HERE = Path(__file__).parent
LOG = "user_logs/std_log.txt"


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    """With small pages, so that the SDK has several to turn."""
    with azure_sim(tmp_path_factory.mktemp("azure"), options=("--page", "5")) as running:
        yield running


@pytest.fixture(scope="module")
def results(azure: Azure, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of each operation of the SDK, by name."""
    folder = tmp_path_factory.mktemp("witness")
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
    subprocess.run(make, check=True, timeout=60)
    azure.blob_client("dummytwo").create_container("mine")
    cluster = f"{azure.workspace.split('/workspaces/')[0]}/virtualClusters/sim-vc"
    words = [SUBSCRIPTION, GROUP, WORKSPACE, cluster, azure.keys["dummytwo"], str(folder)]
    # Where the SDK was used in this very process it has left the name of its cloud in the environment.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AZURE", "ARM_"))}
    env = {**kept, **azure.env(), "PYTHONPATH": str(HERE / "loopback"), "NO_COLOR": "1"}
    env |= {"AZUREML_RUN_POLLING_INTERVAL_MAX": "2", "SIM_IDENTITY_ENDPOINT": f"{azure.plain}/msi/identity"}
    env |= {"SIM_MSI_ENDPOINT": f"{azure.plain}/msi/token", "SIM_ADMIN_TOKEN": azure.admin_token}
    env |= {"SIM_NODE_SECRET": (azure.folder / "node.token").read_text()}
    azure.admin("POST", "/identity", {"hasty": True})
    argv = [sys.executable, str(HERE / "witness.py"), *words]
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_job_with_code_and_data_runs_and_its_outputs_come_back(results: Any) -> None:
    found = results["code_and_data"]
    assert "code True" in found["said"], found
    assert "what was uploaded" in found["said"]
    assert "0.5" in found["said"]
    assert f"Streaming {LOG}" in found["said"]
    assert {
        f"all/artifacts/{LOG}",
        "all/named-outputs/made/f",
        "one/named-outputs/made/f",
    } <= set(found["got"])
    assert (found["display"], found["experiment"]) == ("by the official client", "witness")


def test_an_environment_of_the_public_registry(results: Any) -> None:
    assert results["registry"] == "Completed"


def test_mpi_starts_a_process_for_each_rank(azure: Azure, results: Any) -> None:
    assert results["mpi"]["status"] == "Completed", results["mpi"]
    logs = [azure.log(results["mpi"]["name"], f"user_logs/std_log_process_{rank}.txt") for rank in range(4)]
    assert logs == [f"rank {rank}\n" for rank in range(4)]


def test_pytorch_starts_a_process_for_each_rank(azure: Azure, results: Any) -> None:
    assert results["pytorch"]["status"] == "Completed", results["pytorch"]
    logs = [
        azure.log(results["pytorch"]["name"], f"user_logs/std_log_process_{rank}.txt") for rank in range(4)
    ]
    assert logs == [f"rank {rank} of 4\n" for rank in range(4)]
    assert results["pytorch"]["timeout"] == 600


def test_a_virtual_cluster_takes_a_job(results: Any) -> None:
    assert results["singularity"] == {"status": "Completed", "type": "Singularity.ND40_v2g1"}


def test_archived_jobs_are_listed_apart(results: Any) -> None:
    assert results["archive"] == [True, False, True]


def test_tags_can_change_and_are_filtered_by(results: Any) -> None:
    assert results["update"] == {"found": True, "other": []}


def test_a_list_of_several_pages_is_whole_and_newest_first(results: Any) -> None:
    assert results["many"] == {"all": True, "newest first": True}


def test_cancel_is_waited_for(results: Any) -> None:
    assert results["cancel"] == "Canceled"


def test_a_deleted_job_is_gone(results: Any) -> None:
    assert results["delete"] is False


def test_stream_says_how_a_job_failed(results: Any) -> None:
    assert "exited with code 4" in results["failing"]
    assert "JobExecutionError" in results["failing"]


def test_datastores_are_made_and_their_secrets_kept(results: Any) -> None:
    found = results["datastores"]
    assert found["default"] == "workspaceblobstore", found
    assert "mine" in found["names"]
    assert found["key"] is True


def test_computes(results: Any) -> None:
    found = results["computes"]
    assert found["found"] == {
        "cpu-cluster": "amlcompute",
        "gpu-cluster": "amlcompute",
        "itp-cluster": "kubernetes",
    }
    assert (found["size"], found["nodes"]) == ("STANDARD_D2_V3", 4)


def test_workspaces(results: Any) -> None:
    assert results["workspaces"]["all"] == [WORKSPACE]
    assert results["workspaces"]["account"].endswith("/storageAccounts/dummyone")


def test_the_latest_version_of_an_environment(results: Any) -> None:
    assert results["environments"] == "1"


def test_the_ssh_service_of_a_job_has_an_endpoint(results: Any) -> None:
    found = results["services"]
    assert (found["type"], found["status"]) == ("SSH", "Running"), found
    assert (urlsplit(found["endpoint"]).scheme, urlsplit(found["endpoint"]).hostname) == ("wss", "127.0.0.1")


def test_a_node_has_an_identity(results: Any) -> None:
    assert results["managed_identity"] == ["https://storage.azure.com"] * 2


def test_a_person_signs_in_by_device_code(azure: Azure, results: Any) -> None:
    assert results["device_code"]["audience"] == azure.base, results["device_code"]
    assert results["device_code"]["said"][0].startswith(f"{azure.base}/device ")


def test_missing_resources_are_reported(results: Any) -> None:
    assert results["missing"]["job"] == results["missing"]["compute"] == "ResourceNotFoundError"
    assert results["missing"]["environment"] == "MlException"
