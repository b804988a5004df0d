"""XT's document on images: the default container of Singularity, and what the workspace offers."""

from __future__ import annotations

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
