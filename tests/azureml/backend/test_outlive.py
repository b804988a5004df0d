"""Runs on the simulator whose nodes are preempted: the next attempt continues from the last one's files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from home import until
from services.azure import Azure

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-runs")]
BASIC = """  basic: {{kind: azureml, platform: singularity, {where}, virtual_cluster: sim-vc, sla: basic,
        instance_type: ND40_v2g1, gpus_per_node: 1, image: "ubuntu:22.04", store: blob}}"""
# As docs/azureml.md has it: three steps in each attempt, nine in all.
TRAIN = """
import os, time
folder, rank = os.environ["GOFER_OUTPUT_DIR"], os.environ["GOFER_RANK"]
last = os.path.join(folder, f"last-{rank}.ckpt")
step = int(open(last).read()) if os.path.exists(last) else 0
print("begins at", step, "with", sorted(os.listdir(folder)), flush=True)
while step < 9:
    step += 1
    with open(last + ".new", "w") as file:
        file.write(str(step))
    os.replace(last + ".new", last)
    if step in (3, 6):
        time.sleep(300)
open(os.path.join(folder, f"result-{rank}"), "w").write("done")
"""


@pytest.fixture
def basic(tmp_path: Path, azure: Azure) -> Iterator[AzureHome]:
    """A person with a target whose nodes may be taken back."""
    azure.admin("DELETE", "/faults")
    one = AzureHome(tmp_path, azure, more=BASIC)
    (one.folder / "train.py").write_text(TRAIN)
    yield one
    one.close()


def output(home: AzureHome, run: str, name: str) -> str:
    """An output of the run in the store; empty when it is not there."""
    path = f"runs/{run}/outputs/{name}"
    if f"me/gofer/{path}" not in home.blobs(path):
        return ""
    client = home.azure.blob_client().get_container_client(home.container)
    return bytes(client.download_blob(f"me/gofer/{path}").readall()).decode()


def test_a_run_continues_after_a_preemption_and_a_kill(basic: AzureHome, azure: Azure) -> None:
    """Of the second it hears nothing: what is in the store then is what it sent while it ran."""
    run = basic.submit("-c", "basic", "-n", "1", "python3", "train.py")
    until(lambda: output(basic, run, "last-0.ckpt") == "3", "the first checkpoint")
    azure.admin("POST", f"/jobs/{run}/preempt", {"resume_s": 1})
    until(lambda: output(basic, run, "last-0.ckpt") == "6", "the second checkpoint")
    azure.admin("POST", f"/jobs/{run}/fail-node", {"restart": True})
    azure.wait(run, "Paused")
    azure.admin("POST", f"/jobs/{run}/resume", {})
    basic.gofer("wait", run, "--timeout", "280")
    found = json.loads(basic.gofer("query", "--json", run).out)
    attempts = [(one["number"], one["state"], one["reason"]) for one in found["attempts"]]
    assert attempts == [(1, "lost", "preempted"), (2, "lost", "node-failure"), (3, "succeeded", None)]
    logs = [basic.log(run, "--attempt", str(number)) for number in (1, 2, 3)]
    assert logs[0] == "begins at 0 with []\n"
    assert logs[1:] == [f"begins at {step} with ['last-0.ckpt']\n" for step in (3, 6)]
    assert (output(basic, run, "last-0.ckpt"), output(basic, run, "result-0")) == ("9", "done")
    basic.gofer("extract", run, str(basic.root / "there"))
    assert (basic.root / "there/outputs/result-0").read_text() == "done"
    basic.gofer("query", run)
    kept = [path for path in (basic.folder / "assets" / run).rglob("*") if path.is_file()]
    assert any("restored 1 file of the outputs, 1 byte," in path.read_text() for path in kept)


def test_two_nodes_that_are_killed(basic: AzureHome, azure: Azure) -> None:
    run = basic.submit("-c", "basic", "-n", "2", "python3", "train.py")

    def at(step: str) -> bool:
        return all(output(basic, run, f"last-{rank}.ckpt") == step for rank in (0, 1))

    for step in ("3", "6"):
        until(lambda: at(step), f"both are at {step}")  # noqa: B023
        azure.admin("POST", f"/jobs/{run}/fail-node", {"restart": True})
        azure.wait(run, "Paused")
        azure.admin("POST", f"/jobs/{run}/resume", {})
    basic.gofer("wait", run, "--timeout", "280")
    assert at("9")
    for rank in ("0", "1"):
        log = basic.log(run, "--attempt", "3", "--rank", rank)
        assert log == "begins at 6 with ['last-0.ckpt', 'last-1.ckpt']\n"


def test_the_upload_can_be_turned_off(basic: AzureHome, azure: Azure) -> None:
    run = basic.submit("-c", "basic", "-n", "1", "--sync", "", "python3", "train.py")
    until(lambda: "begins at 0" in basic.log(run), "it runs")
    until(lambda: basic.blobs(f"runs/{run}/attempts/1/node-0/heartbeat.json"), "ten seconds")
    assert basic.blobs(f"runs/{run}/outputs") == []
    basic.gofer("abort", run)
