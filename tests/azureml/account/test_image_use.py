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


def wrapped_images(docker: Program) -> list[str]:
    """The wrapped images that the registry has."""
    return [name for name in docker.state["registry"] if "-sing-" in name]


def image_of_run(azure: Azure, run: str) -> str:
    _, job = azure.arm("GET", f"/jobs/{run}")
    _, version = azure.ask("GET", f"{job['properties']['environmentId']}?api-version=2024-04-01")
    return str(version["properties"]["image"])


def test_submit_wraps_the_image_once_for_a_digest(home: Home, docker: Program, azure: Azure) -> None:
    planned = home.gofer("-c", "sing", "submit", "--no-code", "--dry-run", "true")
    assert "the image `mine` is wrapped for Singularity before the run is sent" in planned.err
    assert wrapped_images(docker) == []
    done = home.gofer("-c", "sing", "submit", "--no-code", "true")
    (image,) = wrapped_images(docker)
    assert "/versions/".join(environment_of_image(image)) in planned.out
    assert image_of_run(azure, done.out.strip()) == image
    assert image in home.gofer("image", "show", "mine").out
    calls = len(docker.calls)
    again = home.gofer("-c", "sing", "submit", "--no-code", "true")
    assert "wrapped" not in again.err
    assert image_of_run(azure, again.out.strip()) == image
    assert len(docker.calls) == calls
    home.gofer("abort", done.out.strip(), again.out.strip())


def test_an_image_without_a_digest_is_wrapped_for_each_submission(
    home: Home, docker: Program, azure: Azure
) -> None:
    home.configure((home.folder / "gofer.yaml").read_text().replace(f", sha256: {DIGEST}", ""))
    docker.set(registry={BASE.partition("@")[0]: {}})
    for builds in (1, 2):
        done = home.gofer("-c", "sing", "submit", "--no-code", "true")
        assert "hint: with `sha256:` under `dockers: mine:`, it is wrapped only once" in done.err
        assert docker.verbs.count("build") == builds
        (image,) = wrapped_images(docker)
        assert image_of_run(azure, done.out.strip()) == image
        home.gofer("abort", done.out.strip())
    docker.set(daemon=False)
    done = home.gofer("-c", "sing", "submit", "--no-code", "true")  # the image that was wrapped last
    assert image_of_run(azure, done.out.strip()) == image
    home.gofer("abort", done.out.strip())


def test_without_a_builder_submit_names_the_command(home: Home, docker: Program) -> None:
    docker.set(daemon=False)
    for words in (["--dry-run"], []):
        done = home.gofer("-c", "sing", "submit", "--no-code", *words, "true", status=1)
        assert "the image `mine` of the target `sing` must be wrapped for Singularity, and is not" in done.err
        assert "`docker info`: Cannot connect to the Docker daemon" in done.err
        assert "hint: `gofer image wrap mine --push`" in done.err
    docker.set(daemon=True)
    home.gofer("image", "wrap", "mine")
    docker.set(daemon=False)
    done = home.gofer("-c", "sing", "submit", "--no-code", "true", status=1)
    assert "is only on this machine" in done.err
    assert json.loads(home.gofer("list", "runs", "--json").out) == []


def test_a_build_that_fails_leaves_no_run(home: Home, docker: Program) -> None:
    docker.set(logins=[])
    done = home.gofer("-c", "sing", "submit", "--no-code", "true", status=1)
    assert "unauthorized: authentication required" in done.err
    assert "`gofer image wrap` continues where it stopped" in done.err
    assert json.loads(home.gofer("list", "runs", "--json").out) == []
    docker.set(logins=["reg.invalid"])
    run = home.gofer("-c", "sing", "submit", "--no-code", "true").out.strip()
    assert docker.verbs.count("build") == 1
    home.gofer("abort", run)


def test_elsewhere_the_image_itself_is_used_at_its_digest(home: Home, docker: Program) -> None:
    assert is_planned(home, "aml", BASE)
    assert is_planned(home, "own", "other.invalid/x:2")


def test_a_run_gets_an_environment_of_its_wrapped_image(home: Home, docker: Program, azure: Azure) -> None:
    image = home.gofer("image", "wrap", "mine", "--push").out.strip()
    run = home.gofer("-c", "sing", "submit", "-Q", "--no-code", "true").out.strip()
    assert image_of_run(azure, run) == image
    home.gofer("abort", run)


def test_reading_commands_need_no_wrapped_image(home: Home, docker: Program) -> None:
    assert "sim-vc" in home.gofer("target", "show", "sing").out
    assert docker.calls == []
    row = next(one for one in json.loads(home.gofer("image", "list", "--json").out) if one["name"] == "mine")
    assert row["used_by"] == ["aml", "sing"]
