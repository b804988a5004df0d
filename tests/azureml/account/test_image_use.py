"""Which image a run gets: `image:` of a target may name one of `dockers:`, wrapped for Singularity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from azureml.account.programs import Program, install_docker
from home import Home
from services.azure import Azure
from services.azure import azure as azure

from gofer.backends.azureml.names import environment_of_image

pytestmark = pytest.mark.xdist_group("azure-image-use")

DIGEST = "0123456789abcdef" * 4
BASE = f"reg.invalid/me/env:1@sha256:{DIGEST}"
PLACE = (
    "kind: azureml, subscription_id: 00000000-0000-0000-0000-000000000001, resource_group: sim-group, "
    "workspace: sim-ws, store: blob"
)


@pytest.fixture
def docker(home: Home, azure: Azure, tmp_path: Path) -> Program:
    one, container = azure.account(), azure.container()
    secrets = home.path / "secrets.json"
    secrets.parent.mkdir(parents=True)
    secrets.touch(0o600)
    secrets.write_text(json.dumps({"key": one.key}))
    home.environ |= azure.env()
    home.configure(f"""
targets:
  sing: {{{PLACE}, platform: singularity, virtual_cluster: sim-vc, instance_type: D2_v3, image: mine}}
  aml: {{{PLACE}, compute: cpu-cluster, image: mine}}
  own: {{{PLACE}, compute: cpu-cluster, image: "other.invalid/x:2"}}
stores:
  blob: {{url: "az://{container}", account: {one.name}, endpoint: "{one.endpoint}", key: "${{secret:key}}"}}
dockers:
  mine: {{image: "me/env:1", registry: reg.invalid, sha256: {DIGEST}, sing_wrap: true}}
""")
    return install_docker(tmp_path / "bin", registry={BASE: {}}, logins=["reg.invalid"])


def is_planned(home: Home, target: str, image: str) -> bool:
    """Whether a run there would have the environment that gofer makes for that image."""
    output = home.gofer("-c", target, "submit", "--no-code", "--dry-run", "true").out
    return "/versions/".join(environment_of_image(image)) in output


def test_a_run_on_singularity_waits_for_its_wrapped_image(home: Home, docker: Program) -> None:
    for words in (["--dry-run"], []):
        done = home.gofer("-c", "sing", "submit", "--no-code", *words, "true", status=1)
        assert "the image `mine` of the target `sing` must be wrapped for Singularity, and is not" in done.err
        assert "hint: `gofer image wrap mine --push`" in done.err
    home.gofer("image", "wrap", "mine")
    done = home.gofer("-c", "sing", "submit", "--no-code", "true", status=1)
    assert "is only on this machine" in done.err
    image = home.gofer("image", "wrap", "mine", "--push").out.strip()
    assert is_planned(home, "sing", image)
    assert json.loads(home.gofer("list", "runs", "--json").out) == []


def test_elsewhere_the_image_itself_is_used_at_its_digest(home: Home, docker: Program) -> None:
    assert is_planned(home, "aml", BASE)
    assert is_planned(home, "own", "other.invalid/x:2")


def test_a_run_gets_an_environment_of_its_wrapped_image(home: Home, docker: Program, azure: Azure) -> None:
    image = home.gofer("image", "wrap", "mine", "--push").out.strip()
    run = home.gofer("-c", "sing", "submit", "-Q", "--no-code", "true").out.strip()
    _, job = azure.arm("GET", f"/jobs/{run}")
    _, version = azure.ask("GET", f"{job['properties']['environmentId']}?api-version=2024-04-01")
    assert version["properties"]["image"] == image
    home.gofer("abort", run)


def test_reading_commands_need_no_wrapped_image(home: Home, docker: Program) -> None:
    assert "sim-vc" in home.gofer("target", "show", "sing").out
    assert docker.calls == []
    row = next(one for one in json.loads(home.gofer("image", "list", "--json").out) if one["name"] == "mine")
    assert row["used_by"] == ["aml", "sing"]
