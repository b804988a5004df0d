"""XT's document on images: the default container of Singularity, and what the workspace offers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azureml.seeds.layout import OlderToolHome

pytestmark = [pytest.mark.xdist_group("azure-seeds"), pytest.mark.timeout(900)]


@pytest.fixture
def xt(older_home: OlderToolHome) -> OlderToolHome:
    older_home.xt()
    return older_home


def change(older_home: OlderToolHome, old: str, new: str) -> None:
    path = older_home.folder / "gofer.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def supercomputer(older_home: OlderToolHome, run_id: str) -> dict[str, Any]:
    _, job = older_home.azure.arm("GET", f"/jobs/{run_id}")
    found: dict[str, Any] = job["properties"]["resources"]["properties"]["AISuperComputer"]
    return found


def test_a_target_without_a_docker_record_runs_in_the_default_container(xt: OlderToolHome) -> None:
    assert '"imageVersion": "pytorch"' in xt.gofer("submit", "--dry-run", "myscript.py").out
    run_id = xt.gofer("submit", "--wait", "myscript.py").out.strip()
    assert supercomputer(xt, run_id)["imageVersion"] == "pytorch"
    assert xt.log(run_id) == "myscript was here\n"


def test_an_instance_type_without_gpus_gets_the_first_image_that_it_can_run(xt: OlderToolHome) -> None:
    change(xt, "instance_type: ND40_v2g1", "instance_type: D2_v3")
    change(xt, "gpus_per_node: 1", "gpus_per_node: 0")
    assert '"imageVersion": "base-ubuntu22.04"' in xt.gofer("submit", "--dry-run", "myscript.py").out


@pytest.mark.parametrize("named", ["image: reg.invalid/me/env:1", "environment: sklearn-1.5"])
def test_a_target_with_an_image_of_its_own_runs_in_that(xt: OlderToolHome, named: str) -> None:
    change(xt, "instance_type: ND40_v2g1", f"instance_type: ND40_v2g1\n    {named}")
    assert "imageVersion" not in xt.gofer("submit", "--dry-run", "myscript.py").out


def test_a_list_of_images_that_nobody_may_read_stops_no_run(xt: OlderToolHome) -> None:
    xt.azure.fault("status", r"/managedComputeImages", status=403, count=50)
    try:
        assert "imageVersion" not in xt.gofer("submit", "--dry-run", "myscript.py").out
    finally:
        xt.azure.admin("DELETE", "/faults")


def test_the_images_and_environments_of_the_workspace_are_listed(xt: OlderToolHome) -> None:
    xt.azure.arm("PUT", "/environments/mine/versions/7", {"properties": {"image": "reg.invalid/me/env:1"}})
    listed = xt.gofer("image", "list", "-t", "eus-v100").out
    assert "image_version: pytorch" in listed
    assert "PyTorch 2.2, CUDA 12.1" in listed
    rows = {row["name"]: row for row in json.loads(xt.gofer("-c", "eus-v100", "image", "list", "--json").out)}
    assert rows["pytorch"]["kind"] == "singularity"
    assert rows["mine"]["setting"] == "environment: mine:7"
    assert rows["AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu"]["kind"] == "curated"
    # Each line works where it is pasted.
    change(xt, "instance_type: ND40_v2g1", f"instance_type: ND40_v2g1\n    {rows['mine']['setting']}")
    run_id = xt.gofer("submit", "--wait", "myscript.py").out.strip()
    _, job = xt.azure.arm("GET", f"/jobs/{run_id}")
    assert job["properties"]["environmentId"].endswith("/environments/mine/versions/7")


def test_the_list_is_asked_for_once_an_hour_and_has_no_environment_of_gofers_own(xt: OlderToolHome) -> None:
    xt.gofer("submit", "--wait", "myscript.py")
    first = xt.gofer("image", "list", "-t", "eus-v100").out
    assert "gofer-" not in first
    xt.azure.fault("status", r"/(managedComputeImages|environments)", status=503, count=50)
    try:
        assert xt.gofer("image", "list", "-t", "eus-v100").out == first
    finally:
        xt.azure.admin("DELETE", "/faults")


def test_a_target_without_a_service_has_no_images(xt: OlderToolHome) -> None:
    done = xt.gofer("image", "list", "-t", "local", status=1)
    assert "the target `local` has no images: its kind is `local`" in done.err
